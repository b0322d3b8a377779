import pytest
from tiny_encoder import save_encoder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with an encoder of one layer and random weights."""
    return save_encoder(tmp_path_factory.mktemp("tiny"))
