import contextlib

import pytest
from tiny_encoder import save_encoder
from toy_collection import ToyCollection

from tour_pyserini import index as indexing
from tour_pyserini.command import run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with an encoder of one layer and random weights."""
    return save_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def encoded(monkeypatch):
    """How many documents were encoded at a time."""
    encoded, encode = [], indexing.encode_documents
    monkeypatch.setattr(indexing, "encode_documents", lambda *a, **k: encoded.append(len(a[1])) or encode(*a, **k))
    return encoded


@pytest.fixture
def saved(tmp_path, own_cache):
    """A toy collection, and the fields of a search request that name its files."""
    collection = ToyCollection(tmp_path)
    return collection, collection.save()


@pytest.fixture
def no_build(monkeypatch):
    """Interrupts an index command after its last chunk."""

    @contextlib.contextmanager
    def interrupted():
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(indexing, "write_index", interrupt)
            yield

    return interrupted()


@pytest.fixture
def refused(tmp_path, capsys):
    """A command must end with exit code 2 and a sentence with certain words, and leave files as they are."""

    def files():
        paths = (path for path in tmp_path.rglob("*") if path.is_file() and "cache" not in path.parts)
        return {path: path.read_bytes() for path in paths if not path.name.endswith(("-shm", "-wal"))}

    def refused(main, words, *says):
        before = files()
        with pytest.raises(SystemExit) as left:
            run(lambda _: main([str(word) for word in words]))
        said = capsys.readouterr()
        assert left.value.code == 2 and said.err.count("error: ") == 1 and said.out == ""
        assert all(word in said.err.splitlines()[-1] for word in says), said.err
        assert files() == before

    return refused
