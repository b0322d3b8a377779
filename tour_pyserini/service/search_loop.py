"""The searches of a service: a bounded queue in fair order, and one thread that advances all that run together."""

import heapq
import itertools
import logging
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

import numpy as np

from tour_pyserini.errors import RequestError
from tour_pyserini.searchers.label_time import LabelRequest
from tour_pyserini.service.answers import Answers
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.jobs import Job, PendingLabels, RerankJob, SearchJob
from tour_pyserini.service.label_thread import LabelThread

log = logging.getLogger(__name__)

RECENT = 100
"""Searches that the time of a search is estimated from."""
RESERVED = 20
"""Searches of a kind that the time after the last label is taken from; few, so that a slow beginning is forgotten."""


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


class LatencyReserve:
    """Seconds that searches keep free after their last label: for update, retrieval, ranking, and sending the answer.

    They are what the slowest of the recent searches of its kind needed: by method (re-ranking has no update) and by the
    length of the list, in steps of two.
    """

    def __init__(self, first: float) -> None:
        """Begin with what stands for searches of a kind that there was none of yet."""
        self._recent: defaultdict[tuple[str, int], deque[float]] = defaultdict(lambda: deque([first], maxlen=RESERVED))

    def seconds(self, job: Job) -> float:
        """Seconds that are enough for nearly all searches like this one; a re-ranking needs none."""
        return max(self._recent[_kind(job)]) if isinstance(job, SearchJob) else 0.0

    def learn(self, job: Job, seconds: float) -> None:
        """Take into account what a search has needed."""
        if isinstance(job, SearchJob):
            self._recent[_kind(job)].append(seconds)


class SearchLoop:
    """Runs the searches of one collection: some at a time, the others wait in the order in which they are due.

    One thread advances all searches that run: the retrievals that they ask for at the same time are one call of the
    index. Their labels come from the thread of the re-ranker, meanwhile.

    Args:
        collection: what is searched.
        labels: where labels come from.
        at_once: searches that advance together.
        queue: searches that may wait.
    """

    def __init__(self, collection: Collection, labels: LabelThread, *, at_once: int, queue: int) -> None:
        self.collection, self.labels = collection, labels
        self.answers = Answers(collection)
        self.reserve = LatencyReserve(collection.try_search())
        self._at_once, self._queue = at_once, queue
        self._waiting: list[tuple[float, int, Job]] = []
        self._running: set[Job] = set()
        self._labelled: list[Job] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._seconds: deque[float] = deque(maxlen=RECENT)  # from the start of a search to its end
        self._thread = threading.Thread(target=self._work, name="searches", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """Searches that advance together now."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Searches that wait for their turn."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether a search that comes now is sent away."""
        return self._closing or self.waiting >= self._queue

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs in, all of them or none.

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
            if len(self._waiting) + len(jobs) > self._queue + idle:
                raise BusyError(f"{len(self._waiting)} searches are waiting already", wait)
            if any(job.arrived + wait > job.deadline for job in jobs):
                raise BusyError("the deadline would pass in the queue", wait)
            for job in jobs:
                heapq.heappush(self._waiting, (job.due, next(self._numbers), job))
            self._changed.notify()

    def wake(self) -> None:
        """Look again: somebody has cancelled a job."""
        with self._changed:
            self._changed.notify()

    def too_late(self) -> BusyError | None:
        """What is told to a job that has to begin now and still waits; None if its turn comes at once."""
        with self._changed:
            if self.running < self._at_once:
                return None
            return BusyError("the deadline has come in the queue", self._expected_wait())

    def latest_start(self, job: Job) -> float:
        """When a job must begin to be answered in time; infinity without a deadline."""
        return job.deadline - self.reserve.seconds(job)

    def sent(self, job: Job) -> None:
        """Told when the answer of a job is on its way: the next ones know how much time to reserve for that."""
        if job.labelled:
            self.reserve.learn(job, time.monotonic() - job.labelled)

    def close(self) -> None:
        """Finish what runs and what waits; nothing new is taken in."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _expected_wait(self) -> float:
        """Seconds until a search that comes now begins."""
        if self.running < self._at_once and not self._waiting:
            return 0.0
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return mean * (len(self._waiting) + 1) / self._at_once

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (begun := self._begin()) and not self._labelled and not self._expired():
                    if self._closing and not self._waiting and not self._running:
                        return
                    self._changed.wait(self._next_deadline())
                labelled, self._labelled = self._labelled, []
                expired = self._expired()
            for request in expired:  # then its job is a labelled one
                request.end()
            self._advance([*begun, *(job for job in labelled if job in self._running)])

    def _begin(self) -> list[Job]:
        """Take the jobs whose turn it is out of the queue."""
        begun: list[Job] = []
        while self._waiting and self.running < self._at_once:
            *_, job = heapq.heappop(self._waiting)
            if not job.cancelled.is_set():
                job.started = time.monotonic()
                self._running.add(job)
                begun.append(job)
        return begun

    def _expired(self) -> list[LabelRequest]:
        """What running jobs wait for and must not any longer."""
        now = time.monotonic()
        pending = [(job, job.pending.request) for job in self._running if job.pending is not None]
        return [
            request
            for job, request in pending
            if not request.ended.is_set() and (job.cancelled.is_set() or request.deadline <= now)
        ]

    def _next_deadline(self) -> float | None:
        """Seconds until one of them expires; None if none does."""
        deadlines = [job.pending.request.deadline for job in self._running if job.pending is not None]
        nearest = min(deadlines, default=math.inf)
        return None if math.isinf(nearest) else max(nearest - time.monotonic(), 0.001)

    def _advance(self, jobs: Sequence[Job]) -> None:
        """Let jobs go on: those that begin, and those whose labels have come."""
        reranked = [job for job in jobs if isinstance(job, RerankJob)]
        for one in reranked:
            self._guarded([one], lambda some: self._rerank(some[0]))
        # Searches of one kind advance together.
        kinds: dict[object, list[SearchJob]] = {}
        for job in jobs:
            if isinstance(job, SearchJob):
                kinds.setdefault((job.config, job.hits), []).append(job)
        for group in kinds.values():
            self._guarded(group, self._search)

    def _guarded(self, jobs: Sequence[Job], work: Callable[[Sequence[Job]], None]) -> None:
        """Do the work of jobs together; if that fails, each by itself, so that one cannot fail another."""
        live = [job for job in jobs if not self._dropped(job)]
        if not live:
            return
        try:
            work(live)
        except Exception as error:
            if len(live) > 1:
                for job in live:
                    if job in self._running:
                        self._guarded([job], work)
                return
            if not isinstance(error, RequestError):  # then the reason is for the log only
                log.exception("a search failed")
                error = FailedError("the service has failed; its log says why.")
            self._end(live[0], error)

    def _search(self, jobs: Sequence[Job]) -> None:
        searches = [job for job in jobs if isinstance(job, SearchJob)]
        config, hits = searches[0].config, searches[0].hits
        searcher = self.collection.searcher(config)
        scheduler = searcher.scheduler(self.collection.request.threads)
        new = [job for job in searches if job.task is None]
        if new:
            tasks = searcher.tasks([job.query for job in new], [job.qid or "query" for job in new], hits)
            for job, task in zip(new, tasks, strict=True):
                job.task = task
        for job in searches:
            if job.pending is not None and job.task is not None:
                job.task.answer(job.take_labels())
        scheduler.advance([job.task for job in searches if job.task is not None])
        for job in searches:
            assert job.task is not None
            if job.streamed or job.rounds:
                message = self.answers.round(job, searcher.round_so_far(job.task, scheduler, hits), searcher)
                if job.rounds:
                    job.lists.append(message)
                if job.streamed:
                    job.report(message)
            if job.task.outcome is not None:
                self._end(job, self.answers.answer(job, searcher))
            else:
                self._ask_labels(job, searcher.pairs(job.task))

    def _rerank(self, job: Job) -> None:
        assert isinstance(job, RerankJob)
        if job.pending is None:
            self._ask_labels(job, [(job.query, passage) for passage in job.passages])
        else:
            self._end(job, job.take_labels().tolist())

    def _ask_labels(self, job: Job, pairs: Sequence[tuple[str, str]]) -> None:
        """Ask for the labels of pairs; those that the score cache has are not asked for."""

        def ended() -> None:
            with self._changed:
                self._labelled.append(job)
                self._changed.notify()

        known = self.labels.look_up(pairs)
        missing = np.flatnonzero(np.isnan(known))
        now, deadline = time.monotonic(), job.deadline - self.reserve.seconds(job)
        request = LabelRequest([pairs[position] for position in missing.tolist()], deadline, now, ended)
        job.pending = PendingLabels(request, known, missing, now)
        if len(missing):
            self.labels.submit(request)
        else:
            request.end()

    def _dropped(self, job: Job) -> bool:
        """Whether nobody waits for a job any more; then it ends here."""
        if job.cancelled.is_set():
            with self._changed:
                self._running.discard(job)
            return True
        return False

    def _end(self, job: Job, message: object) -> None:
        with self._changed:
            self._running.discard(job)
        if not isinstance(message, Exception):
            self._seconds.append(time.monotonic() - job.started)
        job.report(message)


def _kind(job: SearchJob) -> tuple[str, int]:
    return job.config.method, job.hits.bit_length()
