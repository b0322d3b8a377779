"""What several rooms' tests share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real collections and models beside the project, or a skip."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not (path / "collections").is_dir():
        pytest.skip("no shared collections beside the project")
    return path
