"""A compressed index whose hits are re-ordered by exact similarities."""

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits
from tour_pyserini.stores.index_vectors import VectorLookup
from tour_pyserini.stores.store import Store

REORDERED = 1000
"""Hits of the compressed index that are re-ordered: its first 1,000 hits are cheap, but their order is not exact."""


class RefinedIndex:
    """A compressed store whose `search` computes the similarities of hits from exact vectors."""

    def __init__(self, index: Store, vectors: VectorLookup) -> None:
        """Refine a store with a function from positions [m] to exact vectors [m, d]."""
        self._index, self._vectors = index, vectors

    def search(self, queries: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the queries [n, d] with exact similarities; see `Store.search`."""
        hits = self._index.search(queries, max(k, REORDERED), threads=threads)
        similarities = np.full(hits.ids.shape, -np.inf, dtype=np.float32)
        # One query at a time: the vectors of all hits of a batch would take hundreds of megabytes.
        for row, (query, ids) in enumerate(zip(queries, hits.ids, strict=True)):
            is_hit = ids >= 0
            similarities[row, is_hit] = self._vectors(ids[is_hit]) @ query.astype(np.float32)
        order = np.argsort(-similarities, axis=1, kind="stable")
        ids = np.take_along_axis(hits.ids, order, axis=1)
        return Hits(ids[:, :k], np.take_along_axis(similarities, order, axis=1)[:, :k])
