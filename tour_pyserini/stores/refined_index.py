"""A compressed index whose hits are put in order by exact vectors."""

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits
from tour_pyserini.core.pool import Vectors
from tour_pyserini.stores.faiss_index import FaissIndex

POOL = 1000
"""Hits of the compressed index that are looked at: what it finds is cheap, what it finds first is not reliable."""


class RefinedIndex:
    """An index with the interface of `FaissIndex`, for vectors that the index itself keeps only in part."""

    def __init__(self, index: FaissIndex, vectors: Vectors) -> None:
        """Refine an index with a source of exact vectors [m, d] for positions [m]."""
        self._index, self._vectors = index, vectors

    def search(self, queries: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the queries [n, d] with exact similarities; see `FaissIndex.search`."""
        found = self._index.search(queries, max(k, POOL), threads=threads)
        similarities = np.full(found.ids.shape, -np.inf, dtype=np.float32)
        # One query at a time: the vectors of a batch's hits would be a hundred megabytes.
        for row, (query, ids) in enumerate(zip(queries, found.ids, strict=True)):
            there = ids >= 0
            similarities[row, there] = self._vectors(ids[there]) @ query.astype(np.float32)
        order = np.argsort(-similarities, axis=1, kind="stable")
        ids = np.take_along_axis(found.ids, order, axis=1)
        return Hits(ids[:, :k], np.take_along_axis(similarities, order, axis=1)[:, :k])
