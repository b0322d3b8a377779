"""Hits of a flat index are exact and do not depend on the other queries of a batch; effort, vectors, and damage."""

from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_collection import faiss_index, unit

from tour_pyserini.errors import TourError
from tour_pyserini.stores import faiss_index as faiss_index_module
from tour_pyserini.stores.faiss_index import FaissIndex, set_search_effort
from tour_pyserini.stores.store import Store, as_store


def expected_hits(vectors, query, k):
    """Ids and inner products in double precision; of equal products, the larger id is first."""
    products = vectors.astype(np.float64) @ query.astype(np.float64)
    return np.lexsort((-np.arange(len(vectors)), -products))[:k], np.sort(products)[::-1][:k]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 40), st.integers(1, 90))
def test_hits_with_many_ties_are_in_the_order_of_faiss(seed, documents, queries, k):
    """Products of small integers are exact in every kernel, so the expected order is known."""
    random = np.random.default_rng(seed)
    vectors, asked = (random.integers(-2, 3, size=(n, 3)) for n in (documents, queries))
    store = as_store(vectors)
    assert isinstance(store, Store) and as_store(store) is store
    assert (store.dimension, store.size, store.exact) == (3, documents, True)
    hits = store.search(asked, k)
    assert hits.ids.shape == (queries, min(k, documents))
    for row, query in enumerate(asked):
        ids, products = expected_hits(vectors, query, k)
        assert hits.ids[row].tolist() == ids.tolist()
        assert hits.similarities[row].tolist() == products.tolist()


@pytest.mark.parametrize("k", [1, 10, 150])
def test_hits_do_not_depend_on_the_batch(k):
    random = np.random.default_rng(5)
    vectors, queries = unit(random, 4000, 384), unit(random, 400, 384)
    vectors[2000:2100] = vectors[:100]  # duplicates: ties to the last bit
    vectors[3000:3100] = np.nextafter(vectors[:100], 1)  # differences below the rounding error
    queries[:50] = vectors[:50]
    vectors[3100:3300] = vectors[100]  # more ties than extra hits
    queries[50] = vectors[100]
    flat, before = faiss.IndexFlatIP(384), faiss.cvar.distance_compute_blas_threshold
    flat.add(vectors)
    index = FaissIndex(flat)
    together = index.search(queries, k)
    assert together.ids[50, :k].tolist() == [*range(3299, 3299 - min(k, 200), -1)]
    for size in (1, 15, 16, 17, 333, 334):  # around the thresholds of the flat search and of FAISS
        rows = random.permutation(400)[:size]
        hits = index.search(queries[rows], k, threads=2)
        assert np.array_equal(hits.ids, together.ids[rows])
        assert np.array_equal(hits.similarities.view(np.int32), together.similarities[rows].view(np.int32))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: index.search(queries[:64], k).ids, range(8)))
    assert all(np.array_equal(ids, together.ids[:64]) for ids in found)
    assert faiss.cvar.distance_compute_blas_threshold == before


VECTORS = unit(np.random.default_rng(1), 200, 8)


@pytest.mark.parametrize("factory", ["HNSW8", "IVF4,Flat", "IVF4,SQ8", "PQ4x4", "IVF4,PQ4x4fs"])
def test_hits_of_an_approximate_index_do_not_depend_on_the_batch(factory, monkeypatch):
    monkeypatch.setattr(faiss_index_module, "_BLOCK_NUMBERS", 24)
    index, queries = faiss_index(factory, VECTORS), unit(np.random.default_rng(3), 10, 8)
    for mine, theirs in zip(FaissIndex(index).search(queries, 5), index.search(queries, 5)[::-1], strict=True):
        assert np.array_equal(mine, theirs)


def test_effort_is_that_of_the_kind_of_index(caplog):
    graph, lists = faiss_index("HNSW8", VECTORS), faiss_index("IVF16,Flat", VECTORS)
    set_search_effort(graph, "g", ef_search=77)
    set_search_effort(lists, "l", nprobe=1)
    assert graph.hnsw.efSearch == 77 and lists.nprobe == 1
    hits = FaissIndex(lists).search(unit(np.random.default_rng(3), 10, 8), 100)
    assert (hits.similarities[hits.ids < 0] == -np.inf).all() and "raise efSearch" in caplog.text
    for index, options in ((lists, {"ef_search": 9}), (graph, {"nprobe": 3})):
        with pytest.raises(TourError, match="leave it out"):
            set_search_effort(index, "x", **options)


@pytest.mark.parametrize(
    ("factory", "exact"), [("Flat", True), ("IVF4,Flat", True), ("SQ8", False), ("IVF4,PQ4x4", False)]
)
def test_vectors_are_read_back(factory, exact):
    store, ids = as_store(faiss_index(factory, VECTORS)), np.array([7, 0, 7])
    assert (store.exact, store.readable) == (exact, True)
    assert np.allclose(store.fetch(ids), VECTORS[ids], atol=1e-6 if exact else 0.5)


def outside():
    index = faiss.IndexIDMap(faiss.IndexFlatIP(8))
    index.add_with_ids(np.ones((3, 8), dtype=np.float32), np.array([5, 6, 7]))
    return index


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: faiss_index("Flat", VECTORS, faiss.METRIC_L2), "distance"),
        (lambda: faiss.IndexFlatIP(8), "no vectors"),
        (lambda: faiss_index("Flat", np.full((3, 8), np.nan, np.float32)), "NaN"),
        (outside, "ids outside"),
        (lambda: np.zeros(3), r"\[3\]"),
        (lambda: [["a"]], "matrix of numbers"),
        (lambda: np.array([[0.0, 1.0], [np.nan, 1.0]]), "row 1"),
    ],
)
def test_what_cannot_be_searched_is_refused(make, word):
    with pytest.raises(TourError, match=word):
        as_store(make()).search(np.ones((1, 8), dtype=np.float32), 2)
