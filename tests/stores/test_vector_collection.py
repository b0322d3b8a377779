"""Collections of Milvus Lite and of Qdrant's local mode, against FAISS; loading, docids and passages, refusals."""

import numpy as np
import pytest
from filled_collections import CHUNK, ENGINES, address_in, docids_of, flat, load, loading, some_vectors, texts_of

from tour_pyserini.data.texts import UnknownDocument
from tour_pyserini.errors import TourError
from tour_pyserini.stores.signals import open_signal
from tour_pyserini.stores.store import Store
from tour_pyserini.stores.vector_collection import open_collection
from tour_pyserini.stores.vector_database import open_engine, store_address

VECTORS = some_vectors()
QUERIES = np.random.default_rng(1).standard_normal((9, 12)).astype(np.float32)


@pytest.fixture(scope="module", params=ENGINES)
def store(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines") / "50% #1"  # a folder of any name
    folder.mkdir()
    return load(address_in(folder, request.param), VECTORS, bm25=True)


@pytest.mark.parametrize("k", [1, 10, 190, 500])
def test_the_hits_and_the_bits_of_a_flat_faiss_index(store, k):
    expected, hits = flat(VECTORS).search(QUERIES, k), store.search(QUERIES, k)
    assert np.array_equal(hits.ids, expected.ids)
    assert np.array_equal(hits.similarities, expected.similarities)
    alone = store.search(QUERIES[4:5], k)
    assert np.array_equal(alone.ids, expected.ids[4:5]) and isinstance(store, Store) and store.exact


def test_ties_that_reach_beyond_the_extra_hits(tmp_path):
    vectors = np.ones((60, 3), dtype=np.float32)
    for engine in ENGINES:
        hits = load(address_in(tmp_path, engine), vectors).search(vectors[:1], 2)
        assert hits.ids.tolist() == flat(vectors).search(vectors[:1], 2).ids.tolist() == [[59, 58]]


def test_vectors_docids_and_passages(store, monkeypatch):
    ids = np.array([7, 199, 7, 0])
    assert np.array_equal(store.fetch(ids), VECTORS[ids])
    assert list(store.docids) == docids_of(VECTORS) and store.docids[150] == "doc-150"
    texts = texts_of(VECTORS)
    assert dict(store.texts) == texts
    assert all(store.texts[docid].parts == texts[docid].parts for docid in ("doc-0", "doc-1", "doc-2"))
    hits = store.search(QUERIES, 5)
    monkeypatch.setattr(store.engine, "get", lambda *_, **__: pytest.fail("vectors of hits are asked for again"))
    assert np.array_equal(store.fetch(hits.ids[3]), VECTORS[hits.ids[3]])


@pytest.mark.parametrize("rows", [1, 30])
def test_requests_have_the_size_that_an_engine_takes(store, monkeypatch, rows):
    sizes = []
    search = type(store.engine).search

    def counted(self, address, state, vectors, k, *, with_vectors):
        sizes.append(len(vectors) * k if with_vectors else 0)
        return search(self, address, state, vectors, k, with_vectors=with_vectors)

    monkeypatch.setattr(type(store.engine), "search", counted)
    monkeypatch.setattr(store.engine, "most_bytes", rows * (1024 + 4 * 12))
    assert np.array_equal(store.search(QUERIES, 3).ids, flat(VECTORS).search(QUERIES, 3).ids)
    assert len(sizes) == len(QUERIES) and max(sizes) <= rows
    assert np.array_equal(store.fetch(np.arange(200)), VECTORS)


def test_more_hits_than_an_engine_gives(store, monkeypatch):
    monkeypatch.setattr(store.engine, "most_hits", 50)
    assert store.search(QUERIES, 50).ids.shape == (9, 50)
    with pytest.raises(TourError, match="at most 50"):
        store.search(QUERIES, 51)


def test_bm25_of_the_collection(store):
    docids, scores = open_signal(str(store.address))(["word42 whale"], 200)
    assert docids[0][0] == "doc-42" and len(docids[0]) == 68 and min(scores[0]) > 0  # 67 whales, one word42
    assert scores[0] == sorted(scores[0], reverse=True)


@pytest.mark.parametrize("options", ["&kind=hnsw&M=8&efC=40", "&kind=ivf&nlist=4&nprobe=4"])
def test_approximate_indexes_give_exact_similarities(tmp_path, options):
    store = load(address_in(tmp_path, "milvus", options=options), VECTORS)
    assert not store.state.exact
    hits, expected = store.search(QUERIES, 10), flat(VECTORS).search(QUERIES, 10)
    found = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(hits.ids, expected.ids, strict=True)])
    assert found > 0.9  # all lists are searched, or a graph of 200 nodes with ef 128
    assert np.allclose(hits.similarities, np.take_along_axis(QUERIES @ VECTORS.T, hits.ids, axis=1), atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupted_load_goes_on(tmp_path, engine):
    address = address_in(tmp_path, engine)
    first = loading(address, VECTORS)
    first.append(docids_of(VECTORS)[:CHUNK], VECTORS[:CHUNK])
    with pytest.raises(TourError, match=f"holds {CHUNK} of 200"):
        open_collection(store_address(address))
    # Killed within the second chunk: some of its rows have arrived.
    first.append(docids_of(VECTORS)[CHUNK : CHUNK + 5], VECTORS[CHUNK : CHUNK + 5])
    assert loading(address, VECTORS).done == CHUNK
    with pytest.raises(TourError, match="another encoder_fingerprint"):
        loading(address, VECTORS, encoder_fingerprint="other")
    assert np.array_equal(load(address, VECTORS).search(QUERIES, 20).ids, flat(VECTORS).search(QUERIES, 20).ids)
    with pytest.raises(TourError, match="complete already"):
        loading(address, VECTORS)


@pytest.mark.parametrize("engine", ENGINES)
def test_collections_without_texts(tmp_path, engine):
    store = load(address_in(tmp_path, engine, options="&texts=no"), VECTORS[:30])
    assert store.texts is None and store.search(QUERIES, 3).ids.shape == (9, 3)
    with pytest.raises(TourError, match="no BM25"):
        open_signal(str(store.address))
    with pytest.raises(TourError, match="texts=no"):
        load(address_in(tmp_path, engine, "other", "&texts=no"), VECTORS[:30], bm25=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_collections_that_are_refused(tmp_path, engine):
    client = open_engine(store_address(address_in(tmp_path, engine)))._client
    if engine == "milvus":
        client.create_collection("foreign", dimension=3, metric_type="IP")
        client.create_collection("distances", dimension=3, metric_type="L2")
    else:
        from qdrant_client.models import Distance, VectorParams

        client.create_collection("foreign", VectorParams(size=3, distance=Distance.DOT))
        client.create_collection("distances", VectorParams(size=3, distance=Distance.EUCLID))
    for name, word in (("missing", "not exist"), ("foreign", "another program"), ("distances", "another program")):
        with pytest.raises(TourError, match=word):
            open_collection(store_address(address_in(tmp_path, engine, name)))
    with pytest.raises(TourError, match="another program"):
        load(address_in(tmp_path, engine, "foreign"), VECTORS)


def test_what_is_known_is_not_asked_for_again(tmp_path, monkeypatch):
    store = load(address_in(tmp_path, "qdrant", options="&kind=flat"), VECTORS)
    get, asked = store.engine.get, []
    monkeypatch.setattr(
        store.engine, "get", lambda name, ids, *, what: asked.append((what, len(ids))) or get(name, ids, what=what)
    )
    store.docids.remember(store.rows(range(9), "docid"))
    store.texts.load(["doc-1", "doc-2"])
    store.texts.load(["doc-2", "doc-3"])
    texts = texts_of(VECTORS)
    assert all(store.texts[docid] == texts[docid] for docid in ("doc-2", "doc-3", "doc-1"))
    assert asked[1:] == [("passage", 2), ("passage", 1), ("passage", 1)]
    asked.clear()
    for _ in range(3):
        with pytest.raises(UnknownDocument):
            store.texts["other"]
    assert asked == [("docid", len(VECTORS) - 9)]
    assert store.docids.positions(["doc-7", "other", "doc-3"]) == {"doc-7": 7, "doc-3": 3}
