"""Addresses of collections, and what is said of those that are none."""

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.stores.engines.store_address import store_address


@pytest.mark.parametrize(
    ("text", "location", "collection"),
    [
        ("milvus:demo.db?collection=C", "demo.db", "C"),
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
    assert address.is_server == location.startswith("http")
    assert store_address(str(address)) == address


def test_options():
    address = store_address("milvus:a.db?collection=C&kind=hnsw&M=8&efC=40&ef=50&texts=no&timeout=5&retries=0")
    assert (address.kind, address.numbers) == ("hnsw", {"M": 8, "efC": 40, "ef": 50})
    assert (address.texts, address.timeout, address.retries) == (False, 5.0, 0)


def test_one_collection_has_one_identity(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    same = store_address("milvus:a.db?collection=C"), store_address(f"milvus:{tmp_path}/a.db?collection=C&ef=9")
    assert same[0].identity == same[1].identity
    assert len({same[0].identity, store_address("milvus:b.db?collection=C").identity}) == 2
    assert store_address("qdrant:a.db?collection=C").identity != same[0].identity


@pytest.mark.parametrize("name", ["indexes/scifact", "beir-v1.0.0-nq", "lucene:index", None])
def test_other_indexes_are_no_addresses(name):
    assert store_address(name) is None


def test_a_folder_of_such_a_name_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "milvus:x").mkdir()
    assert store_address("milvus:x") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milvus:demo.db", r"does not name a collection: write milvus:FILE\.db\?collection=NAME or milvus://HOST:PORT"),
        ("milvus:?collection=C", "does not name a collection"),
        ("qdrant:points?collection=a-b", "a name has letters, digits and _"),
        ("qdrant://user:secret@host/C", "has no address of a server"),
        ("milvus:///C", "has no address of a server"),
        ("milvus:a.db?collection=C&probes=3", "option 'probes', which stores do not have"),
        ("qdrant:points?collection=C&kind=ivf", "in qdrant is flat or hnsw, not 'ivf'"),
        ("milvus:a.db?collection=C&nprobe=0", "nprobe is a whole number of at least 1, not '0'"),
        ("milvus:a.db?collection=C&retries=-1", "retries is a whole number of at least 0"),
        ("milvus:a.db?collection=C&texts=maybe", "texts is yes or no"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(TourError, match=message):
        store_address(text)
