"""One update of a query from candidates that somebody else retrieved. Nothing here needs Pyserini or Java."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import Fusion, SignalScores
from tour_pyserini.core.method import Query
from tour_pyserini.core.scheduler import Scheduler, Task
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.reranker import score_pairs
from tour_pyserini.searchers.searched_index import as_signal, listed
from tour_pyserini.stores.signals import HITS as SIGNAL_HITS
from tour_pyserini.stores.signals import Signal, found_by
from tour_pyserini.stores.store import as_store


class Feedback:
    """One update of a query: its method runs on an index that holds the given candidates alone.

    Attributes:
        config: the method and its settings; there is one update, from all candidates.
        labels: whether it reads passages.
        reads_query: whether it needs the query's text.
    """

    def __init__(
        self, reranker: Any = "default", config: TourConfig | None = None, *, signals: Sequence[Any] = ()
    ) -> None:
        """Set up the rule.

        Args:
            reranker: where labels come from: anything `load_reranker` takes, or a function of pairs.
            config: the method and its settings.
            signals: what else says something of the candidates, each anything `as_signal` takes.
        """
        self.config = config or TourConfig()
        self.labels = self.config.most_labels > 0
        self._reranker = load_reranker(reranker) if self.labels else None
        self._signals = [as_signal(signal) for signal in listed(signals)]
        self.reads_query = self.labels or bool(self._signals)

    def update(
        self,
        vector: Floats,
        vectors: Floats,
        *,
        docids: Sequence[str],
        passages: Sequence[str] = (),
        query: str | None = None,
    ) -> Floats:
        """The updated vector [d] of a query; the same where it may stop already.

        Args:
            vector: [d] the query's vector.
            vectors: [k, d] those of the candidates.
            docids: [k] their names, for signals.
            passages: [k] their passages, where the rule labels.
            query: the query's text, where the rule reads it.
        """
        vector = np.asarray(vector, dtype=np.float32).reshape(-1)
        if not len(vectors):
            return vector
        index, text = as_store(vectors), query or ""

        def search(queries: Floats, k: int, excluded: Ids) -> Hits:
            return index.search(queries, k)

        def label(tasks: Sequence[Task]) -> list[Floats]:
            pairs = [(text, passages[id_]) for id_ in tasks[0].wanted_labels.tolist()]
            assert self._reranker is not None
            return [score_pairs(self._reranker, pairs)]

        config = self._config(len(vectors))
        signals = [_scores_of(signal, text, docids) for signal in self._signals] if text else []
        fusion = Fusion(signals, weight=config.settings.signal_weight)
        task = Task(config.chosen, config.settings, Query(vector, 1, fusion, text=text))
        Scheduler(search, index.fetch).run([task], label)
        return task.result.vector

    def _config(self, candidates: int) -> TourConfig:
        """The settings with one round over all candidates, in so far as the method has such settings."""
        rounds = {"depth": candidates, "iterations": 1, "budget": candidates}
        known = self.config.values()
        return self.config.replace(**{name: value for name, value in rounds.items() if name in known})


def _scores_of(signal: Signal, query: str, docids: Sequence[str]) -> SignalScores:
    """What a signal says of the candidates [k], also of those that it does not find."""
    positions = _Numbered(zip(docids, range(len(docids)), strict=True))
    found = found_by(signal, [query], SIGNAL_HITS, positions).of_query(0)
    candidates = np.arange(len(docids))
    return SignalScores(candidates, found.of(candidates))


class _Numbered(dict[str, int]):
    """Gives every docid a position: which documents the index has, a rule of feedback does not know."""

    def __contains__(self, docid: object) -> bool:
        return True

    def __missing__(self, docid: str) -> int:
        self[docid] = len(self)
        return self[docid]
