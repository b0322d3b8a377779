"""Stores: where candidates and their vectors come from. Here are their interface, and the store that is a matrix."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError


@runtime_checkable
class Store(Protocol):
    """Finds the passages that are most similar to vectors, and gives the passages' vectors back.

    A passage is known by its id, which is its position: 0 to size - 1. The hits of a query must not depend on the
    other queries that are searched with it. `FaissIndex` and `MatrixIndex` are stores.
    """

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""

    @property
    def size(self) -> int:
        """How many passages it holds."""

    @property
    def exact(self) -> bool:
        """Whether `fetch` gives the vectors as they were added, not compressed ones."""

    def search(self, vectors: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k passages with the largest inner products for each of the vectors [n, d], best first.

        Returns:
            ids and similarities [n, min(k, size)], padded with -1 and minus infinity if fewer were found.
        """

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] of the passages [m]."""


def as_store(index: Any) -> Store:
    """A store as it is; a FAISS index as a store."""
    if isinstance(index, Store):
        return index
    from tour_pyserini.stores.faiss_index import FaissIndex  # FAISS takes time to load

    return FaissIndex(index)


class MatrixIndex:
    """Searches the rows of a NumPy matrix exactly; of equal similarities, the larger id is first, as in FAISS.

    Each query reads the whole matrix. From about a million rows on, an approximate FAISS index is faster.

    Attributes:
        exact: always true.

    Example:
        >>> index = MatrixIndex([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> index.search(np.array([[0.0, 1.0]]), 2).ids
        array([[1, 2]])
    """

    exact = True

    def __init__(self, matrix: Any) -> None:
        """Search a matrix [size, d], or anything that NumPy reads as one; float32 is not copied.

        Raises:
            TourError: if it is not a matrix of finite numbers.
        """
        given = np.asarray(matrix)
        if given.ndim != 2 or not given.size or given.dtype.kind not in "fiu":
            raise TourError(
                f"the vectors must be a matrix of numbers with one row per passage, not an array of {given.dtype} "
                f"of shape {list(given.shape)}."
            )
        self._matrix: Floats = np.ascontiguousarray(given, dtype=np.float32)
        # A sum is NaN or infinite if one of its numbers is; it needs no second matrix of flags.
        finite = np.isfinite(self._matrix.sum(axis=1, dtype=np.float64))
        if not finite.all():
            raise TourError(f"the vector in row {int(finite.argmin())} contains NaN or infinity.")

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""
        return self._matrix.shape[1]

    @property
    def size(self) -> int:
        """How many vectors it holds."""
        return len(self._matrix)

    def search(self, vectors: Floats, k: int, *, threads: int = 1) -> Hits:
        """The min(k, size) hits of each of the vectors [n, d], best first; `threads` is left to NumPy."""
        wanted = min(k, self.size)
        ids = np.empty((len(vectors), wanted), dtype=np.int64)
        similarities = np.empty((len(vectors), wanted), dtype=np.float32)
        # One product for each query: in a product of matrices, rounding would depend on the other queries.
        for row, vector in enumerate(np.ascontiguousarray(vectors, dtype=np.float32)):
            every = self._matrix @ vector
            ids[row] = _largest(every, wanted)
            similarities[row] = every[ids[row]]
        return Hits(ids, similarities)

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] at the positions [m]."""
        return self._matrix[ids]


def _largest(values: Floats, count: int) -> Ids:
    """The positions of the `count` largest values, the largest first; of equal ones, the last position first."""
    least = np.partition(values, len(values) - count)[len(values) - count]
    ids = np.flatnonzero(values >= least)
    return ids[np.lexsort((-ids, -values[ids]))][:count]
