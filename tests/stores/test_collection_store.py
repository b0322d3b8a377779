"""Collections of Milvus Lite and of Qdrant's local mode, against FAISS; loading, and what is refused."""

import pickle
import sqlite3

import faiss
import numpy as np
import pytest
from filled_collections import CHUNK, ENGINES, address_in, docids_of, load, loading, some_vectors, texts_of

from tour_pyserini.errors import TourError
from tour_pyserini.stores.engines import engine as engines
from tour_pyserini.stores.engines.collection_store import open_collection
from tour_pyserini.stores.engines.qdrant_files import check_points
from tour_pyserini.stores.engines.store_address import store_address
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.signals import open_signal
from tour_pyserini.stores.store import Store
from tour_pyserini.support import http_client

VECTORS = some_vectors()
QUERIES = np.random.default_rng(1).standard_normal((9, 12)).astype(np.float32)


@pytest.fixture(scope="module", params=ENGINES)
def store(request, tmp_path_factory):
    return load(address_in(tmp_path_factory.mktemp("engines"), request.param), VECTORS, bm25=True)


@pytest.fixture
def flat():
    index = faiss.IndexFlatIP(VECTORS.shape[1])
    index.add(VECTORS)
    return FaissIndex(index)


@pytest.mark.parametrize("k", [1, 10, 190, 500])
def test_the_hits_and_the_bits_of_a_flat_faiss_index(store, flat, k):
    expected, hits = flat.search(QUERIES, k), store.search(QUERIES, k)
    assert np.array_equal(hits.ids, expected.ids)
    assert np.array_equal(hits.similarities, expected.similarities)
    alone = store.search(QUERIES[4:5], k)
    assert np.array_equal(alone.ids, expected.ids[4:5]) and isinstance(store, Store) and store.exact


def test_ties_that_reach_beyond_the_extra_hits(tmp_path):
    vectors = np.ones((60, 3), dtype=np.float32)
    index = faiss.IndexFlatIP(3)
    index.add(vectors)
    for engine in ENGINES:
        hits = load(address_in(tmp_path, engine), vectors).search(vectors[:1], 2)
        assert hits.ids.tolist() == FaissIndex(index).search(vectors[:1], 2).ids.tolist() == [[59, 58]]


def test_vectors_docids_and_passages(store, flat):
    store.search(QUERIES[:1], 3)
    ids = np.array([7, 199, 7, 0])
    assert np.array_equal(store.fetch(ids), VECTORS[ids])
    assert list(store.docids) == docids_of(VECTORS) and store.docids[150] == "doc-150"
    texts = texts_of(VECTORS)
    assert dict(store.texts) == texts
    assert all(store.texts[docid].parts == texts[docid].parts for docid in ("doc-0", "doc-1", "doc-2"))
    with pytest.raises(TourError, match="document 'other' is not in"):
        store.texts["other"]


def test_vectors_of_hits_are_not_asked_for_again(store, monkeypatch):
    hits = store.search(QUERIES, 5)
    monkeypatch.setattr(store._engine, "get", lambda *_, **__: pytest.fail("a second request"))
    assert np.array_equal(store.fetch(hits.ids[3]), VECTORS[hits.ids[3]])


@pytest.mark.parametrize("rows", [1, 30])
def test_requests_have_the_size_that_an_engine_takes(store, flat, monkeypatch, rows):
    sizes = []
    search = type(store._engine).search

    def counted(self, address, state, vectors, k, *, with_vectors):
        sizes.append(len(vectors) * k if with_vectors else 0)
        return search(self, address, state, vectors, k, with_vectors=with_vectors)

    monkeypatch.setattr(type(store._engine), "search", counted)
    monkeypatch.setattr(store._engine, "most_bytes", rows * (1024 + 4 * 12))
    assert np.array_equal(store.search(QUERIES, 3).ids, flat.search(QUERIES, 3).ids)
    assert len(sizes) == len(QUERIES) and max(sizes) <= rows
    assert np.array_equal(store.fetch(np.arange(200)), VECTORS)


def test_bm25_of_the_collection(store):
    docids, scores = open_signal(str(store.address))(["word42 whale"], 200)
    assert docids[0][0] == "doc-42" and len(docids[0]) == 68 and min(scores[0]) > 0  # 67 whales, one word42
    assert scores[0] == sorted(scores[0], reverse=True)


def test_what_a_record_says(store):
    told = store.description()
    assert told["metric"] in ("IP", "Dot") and told["exact"] and told["consistency"] in ("Strong", "all replicas")


@pytest.mark.parametrize("options", ["&kind=hnsw&M=8&efC=40", "&kind=ivf&nlist=4&nprobe=4"])
def test_approximate_indexes_give_exact_similarities(tmp_path, flat, options):
    store = load(address_in(tmp_path, "milvus", options=options), VECTORS)
    assert not store.state.exact
    hits, expected = store.search(QUERIES, 10), flat.search(QUERIES, 10)
    found = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(hits.ids, expected.ids, strict=True)])
    assert found > 0.9  # all lists are searched, or a graph of 200 nodes with ef 128
    assert np.allclose(hits.similarities, np.take_along_axis(QUERIES @ VECTORS.T, hits.ids, axis=1), atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupted_load_goes_on(tmp_path, flat, engine):
    address = address_in(tmp_path, engine)
    first = loading(address, VECTORS)
    first.append(docids_of(VECTORS)[:CHUNK], VECTORS[:CHUNK])
    with pytest.raises(TourError, match=rf"holds {CHUNK} of 200 documents; load it with .* to go on"):
        open_collection(store_address(address))
    # Killed within the second chunk: some of its rows have arrived.
    rows = [first._row(CHUNK + i, f"doc-{CHUNK + i}", VECTORS[CHUNK + i]) for i in range(5)]
    first._insert(rows)
    second = loading(address, VECTORS)
    assert second.done == CHUNK
    with pytest.raises(TourError, match="was loaded with another encoder_fingerprint"):
        loading(address, VECTORS, encoder_fingerprint="other")
    assert np.array_equal(load(address, VECTORS).search(QUERIES, 20).ids, flat.search(QUERIES, 20).ids)
    with pytest.raises(TourError, match="is complete already; choose another name, or delete it"):
        loading(address, VECTORS)


@pytest.mark.parametrize("engine", ENGINES)
def test_collections_without_texts(tmp_path, engine):
    store = load(address_in(tmp_path, engine, options="&texts=no"), VECTORS[:30])
    assert store.texts is None and store.search(QUERIES, 3).ids.shape == (9, 3)
    with pytest.raises(TourError, match=r"has no BM25; load it with .* --bm25"):
        open_signal(str(store.address))
    with pytest.raises(TourError, match="--bm25 in a collection reads the texts"):
        load(address_in(tmp_path, engine, "other", "&texts=no"), VECTORS[:30], bm25=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_collections_that_are_refused(tmp_path, engine):
    client = engines.open_engine(store_address(address_in(tmp_path, engine)))._client
    if engine == "milvus":
        client.create_collection("foreign", dimension=3, metric_type="IP")
        client.create_collection("distances", dimension=3, metric_type="L2")
    else:
        from qdrant_client.models import Distance, VectorParams

        client.create_collection("foreign", VectorParams(size=3, distance=Distance.DOT))
        client.create_collection("distances", VectorParams(size=3, distance=Distance.EUCLID))
    for name, message in {
        "missing": "does not exist; load it with python -m tour_pyserini.index",
        "foreign": "was made by another program",
        "distances": "ranks by (L2|Euclid), not by inner product",
    }.items():
        with pytest.raises(TourError, match=message):
            open_collection(store_address(address_in(tmp_path, engine, name)))
    with pytest.raises(TourError, match="was made by another program; choose another name"):
        load(address_in(tmp_path, engine, "foreign"), VECTORS)


def test_a_passage_that_is_too_long_for_milvus(tmp_path):
    target = loading(address_in(tmp_path, "milvus"), VECTORS)
    target._texts = {"doc-0": "é" * 40_000}
    with pytest.raises(TourError, match=r"document .doc-0. is longer than the 65535 bytes .*texts=no"):
        target.append(["doc-0"], VECTORS[:1])


def test_more_hits_than_an_engine_gives(store, monkeypatch):
    monkeypatch.setattr(store._engine, "most_hits", 50)
    assert store.search(QUERIES, 50).ids.shape == (9, 50)
    with pytest.raises(TourError, match="gives at most 50 hits of a query"):
        store.search(QUERIES, 51)


def test_an_engine_that_is_away_for_a_while(store, flat, monkeypatch, caplog):
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)
    search, failures = type(store._engine).search, [ConnectionError("connection lost"), TimeoutError("too slow")]

    def failing(*args, **options):
        if failures:
            raise failures.pop()
        return search(*args, **options)

    monkeypatch.setattr(type(store._engine), "search", failing)
    assert np.array_equal(store.search(QUERIES, 5).ids, flat.search(QUERIES, 5).ids)
    assert len(caplog.records) == 2 and "too slow; trying again in 0.0 s" in caplog.text
    failures += [ConnectionError("connection lost")] * 6
    with pytest.raises(TourError, match=r"gave no answer in 6 tries \(connection lost\); start it again, then run"):
        store.search(QUERIES, 5)
    failures += [ValueError("no such thing")]
    with pytest.raises(TourError, match=r"refuses a request \(no such thing\)"):
        store.search(QUERIES, 5)


def test_files_that_would_run_code_are_not_opened(tmp_path):
    folder = tmp_path / "points" / "collection" / "C"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "storage.sqlite") as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.execute("INSERT INTO points VALUES ('a', ?)", (pickle.dumps(pytest.fail),))
    with pytest.raises(TourError, match=r"does not hold the points .* \(it would load .*\); delete its folder"):
        check_points(tmp_path / "points")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_local_database_may_be_in_a_folder_of_any_name(tmp_path, flat, engine):
    (tmp_path / "50% #1").mkdir()
    address = address_in(tmp_path / "50% #1", engine)
    assert np.array_equal(load(address, VECTORS).search(QUERIES, 5).ids, flat.search(QUERIES, 5).ids)
    check_points(tmp_path / "50% #1" / "points")  # as the next process does
