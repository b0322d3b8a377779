"""A store that is a NumPy matrix."""

from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError

_ROWS = 65_536  # vectors that are checked at a time


class MatrixIndex:
    """Searches the rows of a matrix exactly; of equal similarities, the larger id is first, as in FAISS.

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
        try:
            given = np.asarray(matrix)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TourError(f"the vectors cannot be read as a matrix of numbers ({error}).") from error
        if given.ndim != 2 or not given.size or given.dtype.kind not in "fiu":
            raise TourError(
                f"the vectors must be a matrix of numbers with one row per passage, not an array of {given.dtype} "
                f"of shape {list(given.shape)}."
            )
        self._matrix: Floats = np.ascontiguousarray(given, dtype=np.float32)
        for start in range(0, self.size, _ROWS):
            finite = np.isfinite(self._matrix[start : start + _ROWS]).all(axis=1)
            if not finite.all():
                raise TourError(f"the vector in row {start + int(finite.argmin())} contains NaN or infinity.")

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
