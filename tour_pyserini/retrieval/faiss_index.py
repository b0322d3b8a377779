"""Searching a FAISS index with many query vectors at once."""

from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits
from tour_pyserini.errors import TourError


class FaissIndex:
    """An inner-product FAISS index as the loop sees it.

    Example:
        hits = FaissIndex(searcher.index).search(queries, 10, threads=2)
    """

    def __init__(self, index: Any) -> None:
        import faiss

        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise TourError("the index ranks by distance, not by inner product; build an inner-product index for TouR.")
        if not index.ntotal:
            raise TourError("the index holds no vectors; build it again.")
        self._index = index

    def search(self, queries: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the queries [n, d], best first; fewer where the index is smaller.

        Returns:
            ids and similarities [n, min(k, size)], padded with -1 and minus infinity where fewer were found.
        """
        import faiss

        faiss.omp_set_num_threads(threads)
        vectors = np.ascontiguousarray(queries, dtype=np.float32)
        similarities, ids = self._index.search(vectors, min(k, self._index.ntotal))
        return Hits(ids, np.where(ids >= 0, similarities, -np.inf))
