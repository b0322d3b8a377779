"""The interface of a store: where candidates and their vectors come from."""

from typing import Any, Protocol, runtime_checkable

from tour_pyserini.core.arrays import Floats, Hits, Ids


@runtime_checkable
class Store(Protocol):
    """Finds the passages that are most similar to vectors, and gives the passages' vectors back.

    A passage is known by its id, which is its position: 0 to size - 1. The hits of a query must not depend on the
    other queries that are searched with it. `FaissIndex` and `MatrixIndex` are stores.
    """

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""
        ...

    @property
    def size(self) -> int:
        """How many passages it holds."""
        ...

    @property
    def exact(self) -> bool:
        """Whether `fetch` gives the vectors as they were added, not compressed ones."""
        ...

    def search(self, vectors: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k passages with the largest inner products for each of the vectors [n, d], best first.

        Returns:
            ids and similarities [n, min(k, size)], padded with -1 and minus infinity if fewer were found.
        """
        ...

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] of the passages [m]."""
        ...


def as_store(index: Any) -> Store:
    """A store as it is; a FAISS index as a store."""
    if isinstance(index, Store):
        return index
    from tour_pyserini.stores.faiss_index import FaissIndex  # FAISS takes time to load

    return FaissIndex(index)
