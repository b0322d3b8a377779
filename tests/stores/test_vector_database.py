"""Addresses of collections, and requests to an engine that is away or refuses."""

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.stores.vector_database import StoreAddress, ask, open_engine, store_address
from tour_pyserini.support import http_client


@pytest.mark.parametrize(
    ("text", "location", "collection"),
    [
        ("milvus:/data/a b.db?collection=C", "/data/a b.db", "C"),
        ("milvus://db.example.org:19530/wiki", "http://db.example.org:19530", "wiki"),
        ("milvus:https://db.example.org?collection=wiki", "https://db.example.org", "wiki"),
        ("qdrant:points?collection=C_1", "points", "C_1"),
        ("qdrant://[::1]:6333/C", "http://[::1]:6333", "C"),
        ("qdrant:http://localhost:6333/?collection=C", "http://localhost:6333", "C"),
    ],
)
def test_addresses(text, location, collection):
    address = store_address(text)
    assert (address.engine, address.location, address.collection) == (text[:6], location, collection)
    assert store_address(str(address)) == address


def test_options_and_what_is_no_address(tmp_path, monkeypatch):
    address = store_address("milvus:a.db?collection=C&kind=hnsw&M=8&efC=40&ef=50&texts=no&timeout=5&retries=0")
    assert (address.kind, address.numbers) == ("hnsw", {"M": 8, "efC": 40, "ef": 50})
    assert (address.texts, address.timeout, address.retries) == (False, 5.0, 0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "milvus:x").mkdir()
    for name in ("indexes/scifact", "lucene:index", None, tmp_path, "milvus:x"):
        assert store_address(name) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("milvus:demo.db", r"FILE\.db\?collection=NAME"),
        ("qdrant:points?collection=a-b", "letters, digits and _"),
        ("qdrant://user:secret@host/C", "server"),
        ("milvus:a.db?collection=C&probes=3", "'probes'"),
        ("qdrant:points?collection=C&kind=ivf", "flat or hnsw"),
        ("milvus:a.db?collection=C&nprobe=0", "nprobe"),
        ("milvus:a.db?collection=C&retries=-1", "retries"),
        ("milvus:a.db?collection=C&texts=maybe", "yes or no"),
    ],
)
def test_refusals(text, word):
    with pytest.raises(TourError, match=word):
        store_address(text)


class Engine:
    """Fails as it is told to; errors of the network are temporary."""

    def __init__(self, *failures):
        self.failures = list(failures)

    def answer(self):
        if self.failures:
            raise self.failures.pop(0)
        return "answer"

    def is_temporary(self, error):
        return isinstance(error, OSError)


def test_requests_to_an_engine_that_is_away_are_repeated(monkeypatch, caplog):
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)
    address = StoreAddress("qdrant", "points", "C", retries=2)
    away = Engine(ConnectionError("connection lost"), TimeoutError("too slow"))
    assert ask(address, away, away.answer) == "answer" and caplog.text.count("trying again") == 2
    for failures, word in (
        ([ConnectionError("lost")] * 3, "3 tries"),
        ([ValueError("no such thing")], "no such thing"),
    ):
        engine = Engine(*failures)
        with pytest.raises(TourError, match=word):
            ask(address, engine, engine.answer)


def test_an_engine_that_cannot_be_opened_is_one_sentence(tmp_path):
    (tmp_path / "points").write_text("a file where a folder should be")
    with pytest.raises(TourError, match="cannot be opened"):
        open_engine(store_address(f"qdrant:{tmp_path}/points?collection=C"))
