"""The searches of a service: a bounded queue in fair order, and one thread that advances all that run together."""

import heapq
import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from tour_pyserini.core.scheduler import Scheduler
from tour_pyserini.errors import RequestError
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.jobs import Job, RerankJob, SearchJob
from tour_pyserini.service.label_thread import LabelThread

log = logging.getLogger(__name__)
_J = TypeVar("_J", bound=Job)

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
    length of the list, in steps of two. Several threads may ask and tell.
    """

    def __init__(self, first: float) -> None:
        """Begin with what stands for searches of a kind that there was none of yet."""
        self._first = first
        self._recent: dict[tuple[str, int], tuple[float, ...]] = {}

    def seconds(self, job: Job) -> float:
        """Seconds that are enough for nearly all searches like this one; a re-ranking needs none."""
        return max(self._recent.get(_kind(job), (self._first,))) if isinstance(job, SearchJob) else 0.0

    def learn(self, job: Job, seconds: float) -> None:
        """Take into account what a search has needed."""
        if isinstance(job, SearchJob):
            recent = self._recent.get(_kind(job), (self._first,))
            self._recent[_kind(job)] = (*recent, seconds)[-RESERVED:]


def _kind(job: SearchJob) -> tuple[str, int]:
    return job.config.method, job.hits.bit_length()


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
        self.reserve = LatencyReserve(collection.try_search())
        self._at_once, self._queue = at_once, queue
        self._waiting: list[tuple[float, int, Job]] = []
        self._running: set[Job] = set()  # changed by the thread alone
        self._labelled: list[Job] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._seconds: deque[float] = deque(maxlen=RECENT)  # from the start of a search to its end
        self._thread = threading.Thread(target=self._work, name="searches", daemon=True)
        self._thread.start()

    # For those who ask, in any thread

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
        return self._closing or self._room < 1

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs in, all of them or none.

        Raises:
            BusyError: if there is no room for all of them, or one would wait past its deadline.
        """
        with self._changed:
            self._drop_cancelled()
            wait = self._expected_wait
            if self._closing:
                raise BusyError("the service is shutting down", 5)
            if len(jobs) > self._room:
                raise BusyError(f"{self.waiting} searches are waiting already", wait)
            if any(job.arrived + wait > job.deadline for job in jobs):
                raise BusyError("the deadline would pass in the queue", wait)
            for job in jobs:
                heapq.heappush(self._waiting, (job.due, next(self._numbers), job))
            self._changed.notify()

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Tell that nobody waits for jobs any more; those that have ended do not mind."""
        with self._changed:
            for job in jobs:
                job.cancelled.set()
            self._drop_cancelled()
            self._changed.notify()

    def too_late(self) -> BusyError | None:
        """What is told to a job that has to begin now and still waits; None if its turn comes at once."""
        with self._changed:
            if self.running < self._at_once:
                return None
            return BusyError("the deadline has come in the queue", self._expected_wait)

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

    @property
    def _room(self) -> int:
        """How many jobs can be taken in now."""
        return self._queue + self._at_once - self.running - self.waiting

    @property
    def _expected_wait(self) -> float:
        """Seconds until a search that comes now begins."""
        ahead = self.running + self.waiting + 1 - self._at_once
        if ahead <= 0:
            return 0.0
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return mean * ahead / self._at_once

    def _drop_cancelled(self) -> None:
        self._waiting = [entry for entry in self._waiting if not entry[2].cancelled.is_set()]
        heapq.heapify(self._waiting)

    # In the thread

    def _work(self) -> None:
        while (ready := self._next_jobs()) is not None:
            self._advance(ready)

    def _next_jobs(self) -> list[Job] | None:
        """Wait for jobs that can go on: they begin, or need not wait for labels any longer; None at the end."""
        with self._changed:
            while True:
                self._end_late_requests()
                ready, self._labelled = self._labelled + self._begin(), []
                if ready:
                    return ready
                if self._closing and not self._running:
                    return None
                self._changed.wait(self._next_deadline())

    def _end_late_requests(self) -> None:
        """Let jobs go on that must not wait for labels any longer: they become labelled ones, without some."""
        now = time.monotonic()
        for job in self._running:
            if job.pending and (job.cancelled.is_set() or job.pending.request.deadline <= now):
                job.pending.request.end()

    def _begin(self) -> list[Job]:
        """Take the jobs whose turn it is out of the queue."""
        begun: list[Job] = []
        while self._waiting and self.running < self._at_once:
            *_, job = heapq.heappop(self._waiting)
            job.started = time.monotonic()
            self._running.add(job)
            begun.append(job)
        return begun

    def _next_deadline(self) -> float | None:
        """Seconds until one of them must not wait any longer; None if all of them have time."""
        nearest = min((job.pending.request.deadline for job in self._running if job.pending), default=math.inf)
        return None if math.isinf(nearest) else max(nearest - time.monotonic(), 0.001)

    def _advance(self, jobs: Sequence[Job]) -> None:
        """Let jobs go on until each has ended or waits for labels; searches with the same settings together."""
        kinds: dict[object, list[SearchJob]] = {}
        for job in jobs:
            if job.cancelled.is_set():
                self._running.discard(job)
            elif isinstance(job, RerankJob):
                self._together([job], self._rerank)
            elif isinstance(job, SearchJob):
                kinds.setdefault((job.config, job.hits), []).append(job)
        for group in kinds.values():
            self._together(group, self._search)

    def _together(self, jobs: Sequence[_J], work: Callable[[Sequence[_J]], None]) -> list[_J]:
        """Do the work of jobs at once; if that fails, of each by itself, so that none can fail another.

        Returns:
            The jobs whose work is done; the others have ended. Work may be done twice: the second time it goes on.
        """
        try:
            work(jobs)
        except Exception as error:
            failed = [job for job in jobs if len(jobs) == 1 or (isinstance(job, SearchJob) and job.has_failed)]
            for job in failed:
                self._fail(job, error)
            others = [job for job in jobs if job not in failed]
            return [done for job in others for done in self._together([job], work)]
        return list(jobs)

    def _search(self, jobs: Sequence[SearchJob]) -> None:
        """Let searches of one kind go on: method and settings, and length of the list."""
        searcher, hits = self.collection.searcher(jobs[0].config), jobs[0].hits
        scheduler = searcher.scheduler(self.collection.request.threads)

        def begin(some: Sequence[SearchJob]) -> None:
            new = [job for job in some if job.task is None]
            if new:
                tasks = searcher.tasks([job.query for job in new], [job.qid or "query" for job in new], hits)
                for job, task in zip(new, tasks, strict=True):
                    job.task = task

        def take_labels(some: Sequence[SearchJob]) -> None:
            for job in some:
                if job.pending and job.task:
                    job.task.answer(job.take_labels())

        def advance(some: Sequence[SearchJob]) -> None:
            scheduler.advance([job.task for job in some if job.task])

        def report(some: Sequence[SearchJob]) -> None:
            for job in some:
                self._report(job, searcher, scheduler)

        jobs = self._together(jobs, begin)
        jobs = [done for job in jobs for done in self._together([job], take_labels)]
        for job in self._together(jobs, advance):
            self._together([job], report)

    def _report(self, job: SearchJob, searcher: TourSearcher, scheduler: Scheduler) -> None:
        """Tell the list of a search and, if it has ended, its answer; else ask for the labels that it wants."""
        assert job.task is not None
        if job.streamed or job.rounds:
            found = searcher.round_so_far(job.task, scheduler, job.hits)
            message = job.next_list(found, self.collection, searcher)
            if job.streamed:
                job.report(message)
        if job.task.outcome is not None:
            self._end(job, job.answer_in(self.collection, searcher))
        else:
            self._ask_labels(job, searcher.pairs(job.task))

    def _rerank(self, jobs: Sequence[RerankJob]) -> None:
        for job in jobs:
            if job.pending is None:
                self._ask_labels(job, [(job.query, passage) for passage in job.passages])
            else:
                self._end(job, job.take_labels().tolist())

    def _ask_labels(self, job: Job, pairs: Sequence[Pair]) -> None:
        def ended() -> None:
            with self._changed:
                self._labelled.append(job)
                self._changed.notify()

        job.pending = self.labels.ask(pairs, self.latest_start(job), ended)

    def _fail(self, job: Job, error: Exception) -> None:
        if not isinstance(error, RequestError):  # then the reason is for the log only
            log.error("a search failed", exc_info=error)
            error = FailedError("the service has failed; its log says why.")
        self._end(job, error)

    def _end(self, job: Job, message: object) -> None:
        self._running.discard(job)
        if not isinstance(message, Exception):
            self._seconds.append(time.monotonic() - job.started)
        job.report(message)
