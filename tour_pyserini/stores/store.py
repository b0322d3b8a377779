"""Stores: where candidates and their vectors come from."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError


@runtime_checkable
class Store(Protocol):
    """Finds the passages that are most similar to vectors, and gives the passages' vectors back.

    A passage is known by its id, which is its position: 0 to size - 1. The hits of a query must not depend on the
    other queries that are searched with it. `FaissIndex` is a store.
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
    """A store as it is; a FAISS index, or a matrix of the passages' vectors [size, d], as a store.

    Raises:
        TourError: if it is none of these, or has NaN or infinity.
    """
    if isinstance(index, Store):
        return index
    import faiss  # it takes time to load

    from tour_pyserini.stores.faiss_index import FaissIndex

    if isinstance(index, faiss.Index):
        return FaissIndex(index)
    given = np.asarray(index)
    if given.ndim != 2 or not given.size or given.dtype.kind not in "fiu":
        what = f"{given.dtype} of shape {list(given.shape)}"
        raise TourError(f"the vectors must be a matrix of numbers with one row per passage, not {what}.")
    # A sum is NaN or infinite if one of its numbers is; it needs no second matrix of flags.
    finite = np.isfinite(given.sum(axis=1, dtype=np.float64))
    if not finite.all():
        raise TourError(f"the vector in row {int(finite.argmin())} contains NaN or infinity.")
    flat = faiss.IndexFlatIP(given.shape[1])
    flat.add(np.ascontiguousarray(given, dtype=np.float32))
    return FaissIndex(flat)


class UnsearchedDocuments:
    """Documents that no vector finds: signals say which there are for a query, as first-stage runs do.

    Attributes:
        dimension: d of the documents' vectors; 0 where they have none.
        size: how many documents there are.
        exact: always true.
    """

    exact = True

    def __init__(self, size: int, vectors: Callable[[Ids], Floats] | None = None, *, dimension: int = 0) -> None:
        """So many documents, and a function that gives their vectors [m, d], if they have any."""
        self.size, self.dimension = size, dimension
        self._vectors = vectors

    def search(self, vectors: Floats, k: int, *, threads: int = 1) -> Hits:
        """No hits for any of the vectors [n, d]."""
        return Hits(np.empty((len(vectors), 0), dtype=np.int64), np.empty((len(vectors), 0), dtype=np.float32))

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] of the documents [m]."""
        return np.empty((len(ids), 0), dtype=np.float32) if self._vectors is None else self._vectors(ids)
