"""The matrix as a store: hits as FAISS has them, and what is no matrix."""

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tour_pyserini.errors import TourError
from tour_pyserini.stores.store import MatrixIndex, Store, as_store


@settings(deadline=None, max_examples=60)
@given(
    matrix=arrays(np.int8, st.tuples(st.integers(1, 30), st.integers(1, 5)), elements=st.integers(-2, 2)),
    seed=st.integers(0, 9),
    k=st.integers(1, 40),
)
def test_the_same_hits_as_an_exact_faiss_index_with_ties(matrix, seed, k):
    # Small whole numbers: every product is exact, and many of them are equal.
    queries = np.random.default_rng(seed).integers(-2, 3, size=(4, matrix.shape[1])).astype(np.float32)
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix.astype(np.float32))
    stores = MatrixIndex(matrix), as_store(flat)
    ours, theirs = (store.search(queries, k) for store in stores)
    assert np.array_equal(ours.ids, theirs.ids) and np.array_equal(ours.similarities, theirs.similarities)
    for store in stores:
        assert isinstance(store, Store) and as_store(store) is store
        assert (store.dimension, store.size, store.exact) == (matrix.shape[1], len(matrix), True)
        assert np.array_equal(store.fetch(np.array([0, 0])), matrix[[0, 0]])


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
    [(np.zeros(3), r"\[3\]"), ([["a"]], "matrix of numbers"), (np.array([[0.0, 1.0], [np.nan, 1.0]]), "row 1")],
)
def test_what_is_not_a_matrix_of_finite_numbers_is_refused(matrix, word):
    with pytest.raises(TourError, match=word):
        MatrixIndex(matrix)
