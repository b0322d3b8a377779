"""A compressed index whose hits are re-ordered by exact similarities, and when that is done."""

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits
from tour_pyserini.errors import TourError
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.stores.index_vectors import VectorLookup
from tour_pyserini.stores.store import Store

ORDERS = ("exact", "index")
"""The order of hits: by the vectors as they were encoded, or by what a compressed index computes."""

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


def in_order(store: Store, vectors: VectorLookup | None, order: str | None) -> Store | RefinedIndex:
    """What is searched so that hits have the order that was asked for, whatever the method.

    Args:
        store: the index.
        vectors: exact vectors from elsewhere; None if there are none.
        order: one of `ORDERS`. None: exact where the index is exact or the vectors are stored; no passage is encoded,
            and no function of a user called, for the sake of the order.

    Raises:
        TourError: if the exact order cannot be had.
    """
    if order not in (None, *ORDERS):
        raise TourError(f"there is no order {order!r} of hits; choose one of {', '.join(ORDERS)}.")
    if order == "index" or store.exact or not (order or isinstance(vectors, EncodedCorpus)):
        return store
    if vectors is None:
        raise TourError(
            "the index is compressed, so hits cannot be put in exact order; give exact vectors too (--vectors FOLDER)."
        )
    return RefinedIndex(store, vectors)
