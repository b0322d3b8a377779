"""A store that is a FAISS index."""

import logging
from functools import cached_property
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.flat_search import FlatSearch
from tour_pyserini.stores.index_vectors import IndexVectors, stores_exactly
from tour_pyserini.support.devices import faiss_threads

log = logging.getLogger(__name__)

_FLAT = ("IndexFlat", "IndexFlatIP")
# Above this many numbers in a batch, FAISS finds the lists of an inverted file with another kernel, which rounds
# differently. In blocks below this limit, a query's hits do not depend on how many queries are searched with it.
_BLOCK_NUMBERS = 127_999


class FaissIndex:
    """Searches an inner-product FAISS index; a query's hits do not depend on the other queries of its batch.

    Example:
        hits = FaissIndex(searcher.index).search(queries, 10, threads=2)
    """

    def __init__(self, index: Any) -> None:
        import faiss

        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise TourError("the index ranks by distance, not by inner product; build an inner-product index.")
        if not index.ntotal:
            raise TourError("the index has no vectors; build it again.")
        self._index = index
        inner = faiss.downcast_index(index)
        self._flat = FlatSearch(inner) if type(inner).__name__ in _FLAT else None
        self._warned = False

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""
        return self._index.d

    @property
    def size(self) -> int:
        """How many vectors it holds."""
        return self._index.ntotal

    @property
    def exact(self) -> bool:
        """Whether `fetch` gives the vectors as they were added, not compressed ones."""
        return stores_exactly(self._index)

    @cached_property
    def vectors(self) -> IndexVectors:
        """Looks up its vectors."""
        return IndexVectors(self._index)

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] at the positions [m]."""
        return self.vectors(ids)

    def search(self, queries: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the queries [n, d], best first; fewer if the index is smaller.

        Returns:
            ids and similarities [n, min(k, size)], padded with -1 and minus infinity if fewer were found.
        """
        try:
            with faiss_threads(threads):
                hits = self._search(queries, k)
        except RuntimeError as error:
            raise TourError(f"FAISS cannot search the index ({first_line(error):.200}); build it again.") from error
        if hits.ids.size and int(hits.ids.max()) >= self._index.ntotal:
            raise TourError("the index is damaged: it gives ids outside its vectors; build it again.")
        if np.isnan(hits.similarities).any():
            raise TourError("the index gives similarities that are NaN: its vectors are damaged; build it again.")
        return hits

    def _search(self, queries: Floats, k: int) -> Hits:
        vectors = np.ascontiguousarray(queries, dtype=np.float32)
        wanted = min(k, self._index.ntotal)
        if self._flat is not None:
            return self._flat.search(vectors, wanted)
        block = max(1, _BLOCK_NUMBERS // self._index.d)
        parts = [self._index.search(vectors[i : i + block], wanted) for i in range(0, len(vectors), block)]
        similarities, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        if (ids < 0).any():
            self._warn_once(wanted)
        return Hits(ids, np.where(ids >= 0, similarities, -np.inf))

    def _warn_once(self, wanted: int) -> None:
        if not self._warned:
            log.warning(
                "the index found fewer than %d hits for some queries; raise efSearch (HNSW) or nprobe (IVF).", wanted
            )
        self._warned = True
