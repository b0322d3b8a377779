"""From a task to its answer: a search round by round, with labels as long as there is time for them."""

import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.searchers.tour_engine import TourEngine
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.label_pool import CancelledError, LabelPool
from tour_pyserini.service.messages import Answer, Candidate, QueryInfo, Round, Settings
from tour_pyserini.service.round_messages import RoundMessages, shown_hit
from tour_pyserini.service.tasks import Reranking, Search, Task
from tour_pyserini.service.time_kept import TimeKept

log = logging.getLogger(__name__)


class FailedError(Exception):
    """The service is to blame; the reason is in its log."""


class Answering:
    """Computes answers; several threads may do so at a time.

    Args:
        collection: what is searched.
        pool: where labels come from.
    """

    def __init__(self, collection: Collection, pool: LabelPool) -> None:
        self._collection, self._pool = collection, pool
        self._kept = TimeKept(collection.try_search())

    def answer(self, task: Task) -> Any:
        """The `Answer` of a search, or the raw scores of a re-ranking.

        Raises:
            CancelledError: if nobody waits for it any more.
            RequestError: if the request is to blame.
            Exception: if something else is.
        """
        return self._searched(task) if isinstance(task, Search) else self._reranked(task)

    def sent(self, task: Task) -> None:
        """Told when the answer of a task is on its way: the next ones know how much time to keep for that."""
        if isinstance(task, Search) and task.labelled:
            self._kept.learn(task.config.method, task.hits, time.monotonic() - task.labelled)

    def latest_start(self, task: Task) -> float:
        """When a task must begin to be answered in time; infinity without a deadline."""
        return task.deadline - (self._kept.seconds(task.config.method, task.hits) if isinstance(task, Search) else 0)

    def settings(self, search: Search) -> Settings:
        """How a search is made, as a message."""
        config = search.config
        labels = config.method_class.needs_labels
        return Settings(
            method=config.method,
            settings={
                name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
                for name, value in config.settings().items()
            },
            most_labels=config.most_labels if labels else 0,
            hits=search.hits,
            deadline_ms=search.deadline_ms,
            index=self._collection.name,
            documents=self._collection.size,
            reranker=self._collection.reranker_name if labels else None,
        )

    def _reranked(self, task: Task) -> list[float]:
        assert isinstance(task, Reranking)
        return self._labels(task, [(task.query, passage) for passage in task.passages], keep=0).tolist()

    def _searched(self, search: Search) -> Answer:
        collection = self._collection
        engine = self._engine(search.config)
        messages = RoundMessages(engine.searcher.docids, collection.text, engine.vectors_at)
        lists: list[Round] = []

        def label(pairs: Sequence[Pair]) -> Floats:
            return self._labels(search, pairs, keep=self._kept.seconds(search.config.method, search.hits))

        steps = engine.rounds(search.query, search.hits, collection.request.threads, label=label)
        for found in steps:
            if search.cancelled.is_set():
                raise CancelledError
            if not np.isfinite([hit.score for hit in found.hits]).all():
                raise RequestError("with these settings, a score is not a finite number; choose smaller ones.")
            if search.streamed or search.rounds:
                message = messages.message(found, search.costs(found.t))
                if search.rounds:
                    lists.append(message)
                if search.streamed:
                    search.report(message)
        return Answer(
            query=QueryInfo(qid=search.qid, query_txt=search.query),
            candidates=[self._candidate(hit, rank, found.labels.get(id_)) for rank, hit, id_ in _ranked(found)],
            stop=found.stop or "",
            settings=self.settings(search),
            costs=search.costs(found.t),
            rounds=lists if search.rounds else None,
        )

    def _engine(self, config: TourConfig) -> TourEngine:
        try:
            return self._collection.engine(config)
        except TourError as error:
            if config == self._collection.request.config:
                raise
            # What the service has does not fit, such as an index without vectors; its files are nobody else's business.
            log.warning("no search with %s: %s", config, error)
            raise RequestError(
                f"this service cannot search with the method {config.method} and these settings; its log says why."
            ) from error

    def _labels(self, task: Task, pairs: Sequence[Pair], *, keep: float) -> Floats:
        """Labels [n], NaN where there was no time; `keep` seconds before the deadline are for what comes after."""
        start = time.monotonic()
        scores, scored = self._pool.buy(pairs, deadline=task.deadline - keep, cancelled=task.cancelled)
        missed = int(np.isnan(scores).sum())
        task.labels += len(scores) - missed
        task.scored += scored - missed
        task.labelled = time.monotonic()
        task.label_seconds += task.labelled - start
        return scores

    def _candidate(self, hit: Any, rank: int, label: float | None) -> Candidate:
        text = self._collection.text(hit.docid)
        return Candidate(**shown_hit(hit, rank, text), document_txt=str(text), label=label)


def _ranked(found: Any) -> list[tuple[int, Any, int]]:
    """Rank, hit and position of each line of a list."""
    return [(rank, *pair) for rank, pair in enumerate(zip(found.hits, found.ids.tolist(), strict=True), start=1)]
