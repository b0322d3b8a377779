import pytest
from tiny_encoder import save_encoder

from tour_pyserini.encoders import encoder as encoder_module


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with an encoder of one layer and random weights."""
    return save_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def encoded(monkeypatch):
    """How many documents were encoded at a time."""
    encoded, encode = [], encoder_module.encode_documents
    monkeypatch.setattr(
        encoder_module, "encode_documents", lambda *a, **k: encoded.append(len(a[1])) or encode(*a, **k)
    )
    return encoded
