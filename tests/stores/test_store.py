"""The matrix as a store: hits as FAISS has them, and what is no matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.store import MatrixIndex, Store, as_store


def test_both_indexes_are_stores():
    import faiss

    flat = faiss.IndexFlatIP(2)
    flat.add(np.eye(2, dtype=np.float32))
    for store in (MatrixIndex(np.eye(2)), FaissIndex(flat), as_store(flat)):
        assert isinstance(store, Store)
        assert (store.dimension, store.size, store.exact) == (2, 2, True)
        assert store.fetch(np.array([1, 1, 0])).tolist() == [[0, 1], [0, 1], [1, 0]]
    assert as_store(store) is store
    assert not isinstance(flat, Store)


@settings(deadline=None, max_examples=60)
@given(
    matrix=arrays(np.int8, st.tuples(st.integers(1, 30), st.integers(1, 5)), elements=st.integers(-2, 2)),
    seed=st.integers(0, 9),
    k=st.integers(1, 40),
)
def test_the_same_hits_as_an_exact_faiss_index_with_ties(matrix, seed, k):
    import faiss

    # Small whole numbers: every product is exact, and many of them are equal.
    queries = np.random.default_rng(seed).integers(-2, 3, size=(4, matrix.shape[1])).astype(np.float32)
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix.astype(np.float32))
    ours, theirs = MatrixIndex(matrix).search(queries, k), FaissIndex(flat).search(queries, k)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.similarities, theirs.similarities)


def test_hits_do_not_depend_on_the_batch():
    random = np.random.default_rng(0)
    index, queries = MatrixIndex(random.normal(size=(3000, 48))), random.normal(size=(40, 48)).astype(np.float32)
    together = index.search(queries, 20)
    for row in range(40):
        alone = index.search(queries[row : row + 1], 20)
        assert np.array_equal(alone.ids[0], together.ids[row])
        assert np.array_equal(alone.similarities[0], together.similarities[row])


@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        (np.zeros(3), r"\[3\]"),
        ([[1.0, 2.0], [1.0]], "matrix of numbers"),
        ("matrix.npy", "matrix of numbers"),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), "row 1"),
    ],
)
def test_what_is_not_a_matrix_of_finite_numbers_is_refused(matrix, word):
    with pytest.raises(TourError, match=word):
        MatrixIndex(matrix)
