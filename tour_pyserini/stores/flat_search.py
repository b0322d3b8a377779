"""Exact search of a flat index by matrix products, with hits that do not depend on what else is searched."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits, Ids

# Hits beyond those asked for: the products' rounding moves hits by a place or two, not by more, unless there are ties.
_SLACK = 16
# Fewer queries than this are no work for a matrix product.
_PAYS_FROM = 16
_UNIT_ROUNDOFF = 2.0**-24  # float32
_ROWS = 65_536  # vectors whose norms are computed at a time

_threshold_lock = threading.Lock()


class FlatSearch:
    """The k hits with the largest inner products; of equal ones that with the larger id first, as in FAISS.

    FAISS multiplies matrices only from 128,000 numbers on, and rounds differently when it does. Here it always does for
    a batch, which is several times faster; the similarities of what it finds, and of a few more, are then computed anew
    one by one, always alike. What was left out cannot be among the k best if the last one found is below the k-th by
    more than the rounding; where it is not, more is asked for.
    """

    def __init__(self, index: Any) -> None:
        """Search a downcast IndexFlat of inner products."""
        self._index = index
        self._norm: tuple[int, float] = (0, 0.0)

    def search(self, vectors: Floats, k: int) -> Hits:
        """The hits [n, k] of the queries, float32 [n, d] in C order; k is at most the size of the index."""
        ids = np.empty((len(vectors), k), dtype=np.int64)
        similarities = np.empty((len(vectors), k), dtype=np.float32)
        rows, wanted = np.arange(len(vectors)), k + _SLACK
        rounding = self._rounding(vectors)
        while len(rows):
            wanted = min(wanted, self._index.ntotal)
            found, ceiling = self._found(vectors[rows], wanted)
            ids[rows], similarities[rows] = found.ids[:, :k], found.similarities[:, :k]
            if wanted == self._index.ntotal:
                break
            rows = rows[found.similarities[:, k - 1] <= ceiling + rounding[rows]]
            wanted *= 2
        return Hits(ids, similarities)

    def _found(self, vectors: Floats, wanted: int) -> tuple[Hits, Floats]:
        """The hits [n, wanted] in their final order, and what FAISS gave the last of them [n]."""
        with _matrix_products(len(vectors) >= _PAYS_FROM):
            rough, ids = self._index.search(vectors, wanted)
        similarities = self._similarities(vectors, ids)
        order = np.lexsort((-ids, -similarities), axis=1)
        return Hits(*(np.take_along_axis(values, order, axis=1) for values in (ids, similarities))), rough[:, -1]

    def _similarities(self, vectors: Floats, ids: Ids) -> Floats:
        """Inner products [n, m], each by the same sequence of operations whatever n and m are."""
        import faiss

        result = np.empty(ids.shape, dtype=np.float32)
        self._index.compute_distance_subset(
            len(vectors), faiss.swig_ptr(vectors), ids.shape[1], faiss.swig_ptr(result), faiss.swig_ptr(ids)
        )
        return result

    def _rounding(self, vectors: Floats) -> Floats:
        """The most [n] by which two ways to compute a query's similarity in float32 may differ."""
        of_one = 1.01 * self._index.d * _UNIT_ROUNDOFF  # relative to the product of the norms
        return 2 * of_one * np.linalg.norm(vectors, axis=1) * self._largest_norm()

    def _largest_norm(self) -> float:
        import faiss

        size = self._index.ntotal
        if self._norm[0] != size:
            stored = faiss.rev_swig_ptr(self._index.get_xb(), size * self._index.d).reshape(size, self._index.d)
            parts = (stored[start : start + _ROWS] for start in range(0, size, _ROWS))
            self._norm = size, max(float(np.sqrt(np.einsum("nd,nd->n", part, part).max())) for part in parts)
        return self._norm[1]


@contextmanager
def _matrix_products(pay: bool) -> Iterator[None]:
    """Have FAISS multiply matrices in the block, whatever the number of queries."""
    import faiss

    if not pay:
        yield
        return
    # The setting is the whole process's: two blocks at once would restore each other's.
    with _threshold_lock:
        before = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = 1
        try:
            yield
        finally:
            faiss.cvar.distance_compute_blas_threshold = before
