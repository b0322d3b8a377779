"""What finds the candidates of queries: the index in an order, signals beside it, and the candidates' vectors."""

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import POOL, Found
from tour_pyserini.core.ledger import Vectors
from tour_pyserini.encoders.document_vectors import PassageVectors
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.dense_signal import as_signal
from tour_pyserini.stores.docids import positions_of
from tour_pyserini.stores.signals import HITS as SIGNAL_HITS
from tour_pyserini.stores.signals import check_documents, found_by
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vectors import EncodedCorpus, in_order, open_vectors
from tour_pyserini.support.costs import Costs


class Retrieval:
    """Finds candidates by vectors and by signals, and gives their vectors.

    Attributes:
        order: the order of hits: `exact`, or that of a compressed `index`.
    """

    def __init__(
        self,
        searcher: Any,
        config: TourConfig,
        costs: Costs,
        *,
        texts: Mapping[str, str] | None = None,
        vectors: Any = None,
        order: str | None = None,
        signals: Sequence[Any] = (),
        remove_query: bool = False,
    ) -> None:
        """Set up the retrieval; the options are those of `TourEngine`.

        Args:
            searcher: has the index and its docids.
            config: the method and its settings.
            costs: where the time of searches is counted.
            texts: the candidates' passages, opened.
            vectors: where candidate vectors come from if not from the index.
            order: the order of a compressed index's hits.
            signals: what finds candidates beside the index.
            remove_query: never retrieve the document whose docid is the query's id.
        """
        self._searcher, self._texts, self._costs = searcher, texts, costs
        self._store, self._vector_source = as_store(searcher.index), vectors
        self._signals = [as_signal(signal) for signal in signals]
        stored = order != "index" and isinstance(vectors, str | os.PathLike | EncodedCorpus)
        reads = config.rounds or self._signals or stored or (order == "exact" and vectors is not None)
        self._vectors = self._open_vectors() if reads else None
        searched = in_order(self._store, None if vectors is None else self._vectors, order)
        self._nearest = searched.search
        self.order = "exact" if self._store.exact or searched is not self._store else "index"
        self._remove_query, self._method_hits = remove_query, config.least_hits
        self._positions = positions_of(searcher.docids) if remove_query or signals else {}
        self._check_signals()

    def with_signals(self, signals: Sequence[Any]) -> Self:
        """The same with further signals."""
        self._positions = self._positions or positions_of(self._searcher.docids)  # once for all that are made from it
        self._vectors = self._vectors or self._open_vectors()
        other = copy.copy(self)
        other._signals = [*self._signals, *map(as_signal, signals)]
        other._check_signals()
        return other

    @property
    def least_hits(self) -> int:
        """Hits that every search must return."""
        return max(self._method_hits, POOL) if self._signals else self._method_hits

    @property
    def encodes(self) -> bool:
        """Whether passages are encoded for their vectors, as they are met."""
        return isinstance(self._vectors, PassageVectors)

    def own_documents(self, q_ids: Sequence[Any]) -> Ids:
        """The positions [n] of the documents that must not be retrieved for the queries; -1 where there is none."""
        positions = self._positions if self._remove_query else {}
        return np.array([positions.get(str(q_id), -1) for q_id in q_ids], dtype=np.int64)

    def search(self, vectors: Floats, k: int, own: Ids, threads: int) -> Hits:
        """The hits [n, k] of queries [n, d] without each query's own document, `own` [n], if it has one."""
        with self._costs.stage("search"):
            if not (own >= 0).any():
                return self._nearest(vectors, k, threads=threads)
            return _without(own, self._nearest(vectors, k + 1, threads=threads), k)

    def found_by_signals(self, texts: list[str], own: Ids) -> list[Found]:
        """What each signal finds for the queries, without each query's own document, if it has one."""
        with self._costs.stage("search"):
            found = [found_by(signal, texts, SIGNAL_HITS + 1, self._positions) for signal in self._signals]
            kept = (_without(own, Hits(one.ids, one.scores), SIGNAL_HITS) for one in found)
            return [Found(*hits, one.absent) for hits, one in zip(kept, found, strict=True)]

    def vectors(self, ids: Ids) -> Floats:
        """The vectors [m, d] at positions [m] of the index."""
        if self._vectors is None:  # the method does not need them
            self._vectors = self._open_vectors()
        with self._costs.stage("vectors"):
            return self._vectors(ids)

    def _open_vectors(self) -> Vectors:
        spec, docids, store = self._vector_source, self._searcher.docids, self._store
        if hasattr(spec, "encode") and not isinstance(spec, str):
            if self._texts is None:
                raise TourError("passages cannot be encoded as they are met without their texts; give the corpus too.")
            return PassageVectors(spec, docids=docids, texts=self._texts, dimension=store.dimension)
        return open_vectors(spec, store=store, docids=docids)

    def _check_signals(self) -> None:
        for signal in self._signals:
            check_documents(signal, self._positions)


def _without(own: Ids, hits: Hits, k: int) -> Hits:
    """The first k of the hits [n, k + 1] that are not the query's own document; `own` [n] is -1 where it has none."""
    # A stable sort on "is the query's own document" moves it to the end, where the extra column is cut off.
    order = np.argsort((hits.ids == own[:, None]) & (own[:, None] >= 0), axis=1, kind="stable")
    ids = np.take_along_axis(hits.ids, order, axis=1)[:, :k]
    similarities = np.take_along_axis(hits.similarities, order, axis=1)[:, :k]
    is_own = ids == own[:, None]
    return Hits(np.where(is_own, -1, ids), np.where(is_own, -np.inf, similarities))
