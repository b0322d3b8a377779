"""Searches in flight: a bounded queue in fair order, searches that advance together, deadlines and cancelling."""

import heapq
import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.label_pool import PATIENCE, CancelledError, LabelPool
from tour_pyserini.service.messages import Answer, Candidate, Costs, QueryInfo, Round, Settings
from tour_pyserini.service.round_messages import RoundMessages, shown_hit

log = logging.getLogger(__name__)

RECENT = 100
"""Searches that the time of a search is estimated from."""
SAFE = 0.99
"""Share of the recent searches that the time kept free at the end would have been enough for."""


class BusyError(Exception):
    """The queue is full, or the deadline would pass in it.

    Attributes:
        retry_after: whole seconds after which it is worth trying again.
    """

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = max(1, math.ceil(retry_after))


class FailedError(Exception):
    """The service is to blame; the reason is in its log."""


@dataclass(eq=False, kw_only=True)
class Task:
    """Work that somebody waits for.

    Attributes:
        query: the text of the query.
        report: called from another thread with each message, the last one is the answer, or an exception.
        deadline_ms: milliseconds from its arrival to its answer; None: it has time.
        arrived: when it came, by the clock `time.monotonic`.
        cancelled: set when nobody waits for it any more.
    """

    query: str
    report: Callable[[Any], None]
    deadline_ms: float | None = None
    arrived: float = field(default_factory=time.monotonic)
    cancelled: threading.Event = field(default_factory=threading.Event)
    started: float = 0.0
    ended: float = 0.0
    labels: int = 0
    scored: int = 0
    label_seconds: float = 0.0

    @property
    def deadline(self) -> float:
        """When the answer must be there."""
        return math.inf if self.deadline_ms is None else self.arrived + self.deadline_ms / 1000

    @property
    def due(self) -> float:
        """Whose turn it is: who is due first. Without a deadline, a task is due a while after it came."""
        return min(self.deadline, self.arrived + PATIENCE)

    def costs(self, updates: int) -> Costs:
        """What it has cost so far."""
        return Costs(
            labels=self.labels,
            scored=self.scored,
            updates=updates,
            milliseconds=round(1000 * (time.monotonic() - self.arrived), 3),
            waited_ms=round(1000 * (self.started - self.arrived), 3),
            label_ms=round(1000 * self.label_seconds, 3),
        )


@dataclass(eq=False, kw_only=True)
class Search(Task):
    """One query on its way to an `Answer`.

    Attributes:
        qid: its id, which the answer repeats.
        hits: length of its list.
        config: the method and its settings.
        streamed: whether every list is reported as a `Round`.
        rounds: whether the answer holds them.
    """

    hits: int
    config: TourConfig
    qid: str = ""
    streamed: bool = False
    rounds: bool = False


@dataclass(eq=False, kw_only=True)
class Reranking(Task):
    """Passages that are scored for a query; the answer is their raw scores [n]."""

    passages: Sequence[str]


class Searches:
    """Runs searches of one collection: some at a time, the others wait in the order in which they are due.

    Args:
        collection: what is searched.
        pool: where labels come from.
        at_once: searches that advance together.
        queue: searches that may wait.
    """

    def __init__(self, collection: Collection, pool: LabelPool, *, at_once: int, queue: int) -> None:
        self.collection, self.pool = collection, pool
        self.running = 0
        self._at_once, self._queue = at_once, queue
        self._waiting: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._seconds: deque[float] = deque(maxlen=RECENT)  # from the start of a search to its end
        # From its last label to its end; before any search, a whole one without labels stands for it.
        self._rest: deque[float] = deque([collection.try_search()], maxlen=RECENT)
        self._handed_over: deque[float] = deque([0.0], maxlen=RECENT)  # from its end to whoever waits for it
        self._threads = [
            threading.Thread(target=self._work, name=f"search-{number}", daemon=True) for number in range(at_once)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Searches that wait for their turn."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether a search that comes now is sent away."""
        return self._closing or self.waiting >= self._queue

    @property
    def rest(self) -> float:
        """Seconds that nearly all searches need after their last label: update, retrieval, ranking, handing over."""
        return sum(float(np.quantile(list(part), SAFE)) for part in (self._rest, self._handed_over))

    def handed_over(self, task: Task) -> None:
        """Told when the answer has reached whoever waits for it."""
        self._handed_over.append(time.monotonic() - task.ended)

    def submit(self, searches: Sequence[Task]) -> None:
        """Take searches in, all of them or none.

        Raises:
            BusyError: if there is no room for all of them, or one would wait past its deadline.
        """
        with self._changed:
            self._waiting = [entry for entry in self._waiting if not entry[2].cancelled.is_set()]
            heapq.heapify(self._waiting)
            idle = max(self._at_once - self.running - len(self._waiting), 0)
            wait = self._expected_wait()
            if self._closing:
                raise BusyError("the service is shutting down", 5)
            if len(self._waiting) + len(searches) > self._queue + idle:
                raise BusyError(f"{len(self._waiting)} searches are waiting already", wait)
            if any(search.arrived + wait > search.deadline for search in searches):
                raise BusyError("the deadline would pass in the queue", wait)
            for search in searches:
                heapq.heappush(self._waiting, (search.due, next(self._numbers), search))
            self._changed.notify(len(searches))

    def close(self) -> None:
        """Finish what runs and what waits; nothing new is taken in."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _expected_wait(self) -> float:
        """Seconds until a search that comes now begins."""
        if self.running < self._at_once and not self._waiting:
            return 0.0
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return mean * (len(self._waiting) + 1) / self._at_once

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                *_, search = heapq.heappop(self._waiting)
                self.running += 1
            try:
                if not search.cancelled.is_set():
                    self._run(search)
            finally:
                with self._changed:
                    self.running -= 1

    def _run(self, task: Task) -> None:
        task.started = time.monotonic()
        try:
            answer = self._searched(task) if isinstance(task, Search) else self._reranked(task)
        except CancelledError:
            return
        except Exception as error:
            # What a request is to blame for is a TourError of the loop; anything else is told to the log only.
            if type(error) is not TourError:
                log.exception("a search failed")
                error = FailedError("the service has failed; its log says why.")
            task.report(error)
            return
        task.ended = time.monotonic()
        self._seconds.append(task.ended - task.started)
        task.report(answer)

    def _reranked(self, task: Task) -> list[float]:
        assert isinstance(task, Reranking)
        return self._labels(task, [(task.query, passage) for passage in task.passages]).tolist()

    def _searched(self, search: Search) -> Answer:
        collection = self.collection
        engine = collection.engine(search.config)
        messages = RoundMessages(engine.searcher.docids, collection.text, engine.vectors_at)
        lists: list[Round] = []
        labelled_at = search.started

        def label(pairs: Sequence[Pair]) -> Floats:
            nonlocal labelled_at
            scores = self._labels(search, pairs)
            labelled_at = time.monotonic()
            return scores

        steps = engine.rounds(search.query, search.hits, collection.request.threads, label=label)
        for found in steps:
            if search.cancelled.is_set():
                raise CancelledError
            if not np.isfinite([hit.score for hit in found.hits]).all():
                raise TourError("with these settings, a score is not a finite number; choose smaller ones.")
            if search.streamed or search.rounds:
                lists.append(messages.message(found, search.costs(found.t)))
            if search.streamed:
                search.report(lists[-1])
        answer = Answer(
            query=QueryInfo(qid=search.qid, query_txt=search.query),
            candidates=[self._candidate(hit, rank, found.labels.get(id_)) for rank, hit, id_ in _ranked(found)],
            stop=found.stop or "",
            settings=self.settings(search),
            costs=search.costs(found.t),
            rounds=lists if search.rounds else None,
        )
        self._rest.append(time.monotonic() - labelled_at)
        return answer

    def _labels(self, search: Task, pairs: Sequence[Pair]) -> Floats:
        start = time.monotonic()
        try:
            scores, scored = self.pool.buy(pairs, deadline=search.deadline - self.rest, cancelled=search.cancelled)
        except TourError as error:
            raise FailedError(str(error)) from error
        missed = int(np.isnan(scores).sum())
        search.labels += len(scores) - missed
        search.scored += scored - missed
        search.label_seconds += time.monotonic() - start
        return scores

    def _candidate(self, hit: Any, rank: int, label: float | None) -> Candidate:
        text = self.collection.text(hit.docid)
        return Candidate(**shown_hit(hit, rank, text), document_txt=str(text), label=label)

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
            index=self.collection.name,
            documents=self.collection.size,
            reranker=self.collection.reranker_name if labels else None,
        )


def _ranked(found: Any) -> list[tuple[int, Any, int]]:
    """Rank, hit and position of each line of a list."""
    return [(rank, *pair) for rank, pair in enumerate(zip(found.hits, found.ids.tolist(), strict=True), start=1)]
