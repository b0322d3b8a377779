"""What several rooms' tests share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests import toy_collection.py and other modules of this folder


@pytest.fixture(scope="module")
def one_thread():
    """Torch on one thread: models as small as the tests' only wait for a second one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def interrupt(monkeypatch):
    """Let the n-th call of a function, and that alone, be interrupted; gives the arguments of all calls so far."""

    def at(owner, name, nth):
        call, calls = getattr(owner, name), []

        def counted(*given, **more):
            calls.append(given)
            if len(calls) == nth:
                raise KeyboardInterrupt
            return call(*given, **more)

        monkeypatch.setattr(owner, name, counted)
        return calls

    return at


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory):
    """A cache folder for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real collections and models beside the project, or a skip."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not (path / "collections").is_dir():
        pytest.skip("no shared collections beside the project")
    return path
