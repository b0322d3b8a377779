"""Fast exact search of a flat index; a query's hits do not depend on the other queries of its batch."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError

# Hits that are fetched in addition to k. Rounding changes the rank of a hit by one or two, unless there are ties.
_EXTRA_HITS = 16
# With fewer queries, a matrix product is not faster.
_MATRIX_FROM = 16
_UNIT_ROUNDOFF = 2.0**-24  # float32
_ROWS = 65_536  # vectors whose norms are computed at a time

_threshold_lock = threading.Lock()


class FlatSearch:
    """Finds the k hits with the largest inner products; of equal ones, the larger id is first, as in FAISS.

    FAISS uses matrix products, which are several times faster, only for large batches (128,000 numbers), and they round
    differently. Here all batches of 16 or more queries use them:

    1. FAISS finds k hits and a few more with a matrix product.
    2. The similarities of these hits are computed again one by one, always with the same operations, and sorted.
    3. If the k-th similarity is above the last one of FAISS by more than the rounding error, no other vector can be
       among the k best. Otherwise more hits are fetched.
    """

    def __init__(self, index: Any) -> None:
        """Search an `IndexFlat` for inner products, as `faiss.downcast_index` returns it."""
        self._index = index
        self._norm: tuple[int, float] = (0, 0.0)  # size of the index when it was computed, largest norm

    def search(self, vectors: Floats, k: int) -> Hits:
        """The hits [n, k] of the queries, float32 [n, d] in C order; k is at most the size of the index."""
        ids = np.empty((len(vectors), k), dtype=np.int64)
        similarities = np.empty((len(vectors), k), dtype=np.float32)
        rows, wanted = np.arange(len(vectors)), k + _EXTRA_HITS
        rounding = self._rounding(vectors)
        while len(rows):
            wanted = min(wanted, self._index.ntotal)
            hits, last = self._fetch(vectors[rows], wanted)
            ids[rows], similarities[rows] = hits.ids[:, :k], hits.similarities[:, :k]
            if wanted == self._index.ntotal:
                break
            rows = rows[hits.similarities[:, k - 1] <= last + rounding[rows]]
            wanted *= 2
        return Hits(ids, similarities)

    def _fetch(self, vectors: Floats, wanted: int) -> tuple[Hits, Floats]:
        """The hits [n, wanted] in their final order, and FAISS's similarity of the last of them [n]."""
        with _matrix_products(len(vectors) >= _MATRIX_FROM):
            rough, ids = self._index.search(vectors, wanted)
        similarities = _similarities(self._index, vectors, ids)
        order = np.lexsort((-ids, -similarities), axis=1)
        return Hits(*(np.take_along_axis(values, order, axis=1) for values in (ids, similarities))), rough[:, -1]

    def _rounding(self, vectors: Floats) -> Floats:
        """An upper bound [n] of the difference between two ways to compute a query's similarity in float32."""
        return rounding_error(vectors, self._largest_norm())

    def _largest_norm(self) -> float:
        import faiss

        size = self._index.ntotal
        if self._norm[0] != size:
            stored = faiss.rev_swig_ptr(self._index.get_xb(), size * self._index.d).reshape(size, self._index.d)
            parts = (stored[start : start + _ROWS] for start in range(0, size, _ROWS))
            norms = [float(np.sqrt(np.einsum("nd,nd->n", part, part).max())) for part in parts]
            if not np.isfinite(norms).all():
                raise TourError("the index has vectors with NaN or infinity; build it again.")
            self._norm = size, max(norms)
        return self._norm[1]


def rounding_error(queries: Floats, largest_norm: float) -> Floats:
    """An upper bound [n] of the difference between two ways to compute similarities of queries [n, d] in float32.

    Args:
        queries: the queries.
        largest_norm: of the vectors that they are compared with.
    """
    relative_error = 1.01 * queries.shape[-1] * _UNIT_ROUNDOFF  # of one way; relative to the product of the norms
    return 2 * relative_error * np.linalg.norm(queries, axis=-1) * largest_norm


def similarities_of(query: Floats, vectors: Floats) -> Floats:
    """Inner products [m] of a query [d] and vectors [m, d], with the bits that `FlatSearch` gives for them."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return _similarities(index, query[None, :], np.arange(len(vectors), dtype=np.int64)[None, :])[0]


def _similarities(index: Any, vectors: Floats, ids: Ids) -> Floats:
    """Inner products [n, m], each with the same sequence of operations for all n and m."""
    import faiss

    result = np.empty(ids.shape, dtype=np.float32)
    index.compute_distance_subset(
        len(vectors), faiss.swig_ptr(vectors), ids.shape[1], faiss.swig_ptr(result), faiss.swig_ptr(ids)
    )
    return result


@contextmanager
def _matrix_products(use: bool) -> Iterator[None]:
    """Make FAISS use matrix products in this block for any number of queries, if `use` is true."""
    import faiss

    if not use:
        yield
        return
    # The threshold is global: without the lock, two threads could restore each other's value.
    with _threshold_lock:
        before = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = 1
        try:
            yield
        finally:
            faiss.cvar.distance_compute_blas_threshold = before
