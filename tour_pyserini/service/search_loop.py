"""The searches of a service: a bounded queue in fair order, and two threads, one for searches and one for labels.

All that is written `async` runs in the event loop; what a thread does is one call of `_advance`, or of the re-ranker.
"""

import asyncio
import bisect
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.rerankers.reranker import Pair, score_pairs_counted
from tour_pyserini.searchers.label_time import Chosen, LabelCost, LabelRequest, next_call
from tour_pyserini.searchers.list_reranker import ListTask
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.jobs import Job, SearchJob
from tour_pyserini.service.messages import Answer, Round
from tour_pyserini.stores.filters import Filter
from tour_pyserini.support.devices import cores

DOWN_SECONDS = 1.0
"""A call that fails sooner is made again for each search alone; what takes longer is a service that is down."""
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


class LabelQueue:
    """Calls the re-ranker for all searches; a search that asks joins the next call.

    Args:
        reranker: where labels come from, with its score cache.
        cost: the forecast, which learns from each call.
        least: pairs that a call may always have if they are in time: as many as are scored in parallel.
    """

    def __init__(self, reranker: Any, cost: LabelCost, *, least: int = 1) -> None:
        self.cost, self._reranker, self._least = cost, reranker, least
        self._waiting: list[LabelRequest] = []
        self._work: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "labels")

    @property
    def waiting(self) -> int:
        """Pairs that wait for a call."""
        return sum(request.left for request in self._waiting if not request.ended)

    def lookup(self, pairs: Sequence[Pair]) -> Floats:
        """The labels [m] of pairs that the score cache has; NaN for the others."""
        known = getattr(self._reranker, "lookup", None)
        return known(pairs) if known else np.full(len(pairs), np.nan)

    async def ask(self, pairs: Sequence[Pair], deadline: float = math.inf) -> Floats:
        """The labels [m] of pairs, the most important first; NaN where there was no time.

        Args:
            pairs: (query, passage) texts.
            deadline: when the labels are of no use any more, by the clock `time.monotonic`; infinity: never.

        Raises:
            Exception: what the re-ranker raised.
        """
        ended = asyncio.Event()
        request = LabelRequest(pairs, deadline, time.monotonic(), ended.set)
        self._waiting.append(request)
        self._work = self._work or asyncio.ensure_future(self._call())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_until(deadline)):
                    await ended.wait()
        finally:
            request.end()
        if request.error is not None:
            raise request.error
        return request.scores.copy()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    async def _call(self) -> None:
        try:
            while self._waiting:
                call = next_call(self._waiting, self.cost, now=time.monotonic(), least=self._least)
                self._waiting = [request for request in self._waiting if request.left and not request.ended]
                if call:
                    await self._score(call)
        finally:
            self._work = None

    async def _score(self, call: Sequence[Chosen]) -> None:
        pairs = [chosen.pair for chosen in call]
        requests = {id(request): request for request, _ in call}.values()
        start = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            scores, computed = await loop.run_in_executor(self._thread, score_pairs_counted, self._reranker, pairs)
        except Exception as error:  # whatever it is, those that wait are told, and the next call is made
            if len(requests) > 1 and time.monotonic() - start < DOWN_SECONDS:
                for request in requests:  # a passage of one of them may be the reason: the others have no part in it
                    if not request.ended:
                        await self._score([chosen for chosen in call if chosen.request is request])
                return
            for request in requests:
                request.end(error)
            return
        if computed == len(pairs):
            self.cost.learn(pairs, time.monotonic() - start)
        for (request, position), score in zip(call, scores.tolist(), strict=True):
            request.scores[position] = score
        for request in requests:
            if not np.isnan(request.scores).any():
                request.end()


class SearchLoop:
    """Runs the searches of one collection: some at a time, the others wait in the order in which they are due.

    What searches that run ask for at the same time is one call of the index, or of the re-ranker.

    Args:
        collection: what is searched.

    Attributes:
        collection: what searches that come now are to search; those that were taken in go on with what it was then.
        labels: where labels come from.
    """

    def __init__(self, collection: Collection) -> None:
        request = collection.request
        least = request.reranker_threads or cores()
        self.collection = collection
        self.labels = LabelQueue(collection.reranker, collection.label_cost(), least=least)
        self._at_once, self._queue = request.at_once, request.queue
        self._waiting: list[Job] = []
        self._running: set[Job] = set()
        self._seconds: deque[float] = deque(maxlen=RECENT)  # from the start of a search to its end
        self._first_reserve = collection.try_search()
        self._reserves: dict[tuple[str, int], deque[float]] = {}
        self._ready: list[tuple[SearchJob, asyncio.Future[None]]] = []
        self._work: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "searches")

    # Whose turn it is

    @property
    def running(self) -> int:
        """Jobs whose turn has come."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Jobs that wait for their turn."""
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many jobs would be taken in now."""
        return self._queue + self._at_once - self.running - self.waiting

    def submit(self, job: Job) -> None:
        """Take a job in; whoever does it lets it `leave` in the end.

        Raises:
            BusyError: if there is no room for it, or it would wait past its deadline.
        """
        wait = self._expected_wait
        if self.room < 1:
            raise BusyError(f"{self.waiting} searches are waiting already", wait)
        if job.arrived + wait > job.deadline:
            raise BusyError("the deadline would pass in the queue", wait)
        job.turn = asyncio.get_running_loop().create_future()
        if isinstance(job, SearchJob):
            job.collection = self.collection
        bisect.insort(self._waiting, job, key=lambda one: one.due)
        self._begin()

    def leave(self, job: Job) -> None:
        """Make room: a job has ended, or nobody waits for it any more."""
        self._waiting = [one for one in self._waiting if one is not job]
        self._running.discard(job)
        self._begin()

    def answer_sent(self, job: Job) -> None:
        """Told when the answer of a job is on its way: the next ones know how much time to reserve for that."""
        if job.labelled:
            self._reserve(job).append(time.monotonic() - job.labelled)

    def close(self) -> None:
        """End the threads."""
        self._thread.shutdown()
        self.labels.close()

    @property
    def _expected_wait(self) -> float:
        """Seconds until a search that comes now begins."""
        ahead = self.running + self.waiting + 1 - self._at_once
        if ahead <= 0:
            return 0.0
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return mean * ahead / self._at_once

    def _latest_start(self, job: Job) -> float:
        """When a job must begin to be answered in time; infinity without a deadline."""
        return job.deadline - max(self._reserve(job), default=0.0)

    def _reserve(self, job: Job) -> deque[float]:
        """Seconds that recent searches of its kind, by method and length, needed after their last label."""
        if not isinstance(job, SearchJob):
            return deque()  # re-ranking needs none
        kind = (job.config.method, job.hits.bit_length())
        return self._reserves.setdefault(kind, deque([self._first_reserve], maxlen=RESERVED))

    async def _turn(self, job: Job) -> None:
        try:
            async with asyncio.timeout(_until(self._latest_start(job))):
                await job.turn
        except TimeoutError:
            raise BusyError("the deadline has come in the queue", self._expected_wait) from None

    def _begin(self) -> None:
        while self._waiting and self.running < self._at_once:
            job = self._waiting.pop(0)
            job.started = time.monotonic()
            self._running.add(job)
            if not job.turn.done():
                job.turn.set_result(None)

    # What is done then

    async def search(self, job: SearchJob) -> AsyncIterator[Round | Answer]:
        """The lists of a search that was submitted, if they are told, and its answer.

        Raises:
            BusyError: if its turn does not come in time.
            Exception: what its method or the re-ranker raised.
        """
        await self._turn(job)
        while True:
            await self._go_on(job)
            if job.streamed:
                yield job.lists[-1]
            if job.answer:
                self._seconds.append(time.monotonic() - job.started)
                self.leave(job)
                yield job.answer
                return
            job.given = await self._label(job, *job.wanted)

    async def rerank(self, job: Job, pairs: Sequence[Pair]) -> list[float]:
        """The labels [m] of pairs, as a job that was submitted; raises what `search` does."""
        await self._turn(job)
        known = await asyncio.get_running_loop().run_in_executor(self._thread, self.labels.lookup, pairs)
        scores = await self._label(job, pairs, known)
        return list(scores.tolist())

    async def rank(self, job: Job, work: ListTask) -> None:
        """Let the method of a list run to its end, as a job that was submitted; raises what `search` does."""
        await self._turn(job)
        run = partial(asyncio.get_running_loop().run_in_executor, self._thread)
        await run(work.go_on)
        while work.task.waits_for_labels:
            pairs = work.pairs
            labels = await self._label(job, pairs, await run(self.labels.lookup, pairs))
            await run(work.go_on, labels)

    async def _label(self, job: Job, pairs: Sequence[Pair], known: Floats) -> Floats:
        """The labels [m] of pairs, of which some are known [m]; the others are asked for."""
        asked, missing = time.monotonic(), np.flatnonzero(np.isnan(known))
        labels = known.copy()
        if len(missing):
            labels[missing] = await self.labels.ask([pairs[i] for i in missing.tolist()], self._latest_start(job))
        late = int(np.isnan(labels).sum())
        job.labels += len(labels) - late
        job.scored += len(missing) - late
        job.labelled = time.monotonic()
        job.label_seconds += job.labelled - asked
        return labels

    async def _go_on(self, job: SearchJob) -> None:
        """Advance a job, together with those that can go on at the same time."""
        done = asyncio.get_running_loop().create_future()
        self._ready.append((job, done))
        self._work = self._work or asyncio.ensure_future(self._go_on_together())
        await done
        if job.error:
            raise job.error

    async def _go_on_together(self) -> None:
        try:
            while self._ready:
                ready, self._ready = [(job, done) for job, done in self._ready if not done.done()], []
                jobs = [job for job, _ in ready]
                await asyncio.get_running_loop().run_in_executor(self._thread, self._advance, jobs)
                for _, done in ready:
                    if not done.done():
                        done.set_result(None)
        finally:
            self._work = None

    # In the thread

    def _advance(self, jobs: Sequence[SearchJob]) -> None:
        """Let jobs go on until each has ended or wants labels; those of the same settings and length together."""
        kinds: dict[object, list[SearchJob]] = {}
        for job in jobs:
            kinds.setdefault((id(job.collection), job.config, job.hits), []).append(job)
        for kind in kinds.values():
            self._together(kind, self._search)
            for job in kind:
                if not job.error:
                    self._together([job], self._report)

    def _together(self, jobs: Sequence[SearchJob], work: Callable[[Sequence[SearchJob]], None]) -> None:
        """Do the work of jobs at once; if that fails, go on with each by itself, so that none can fail another."""
        try:
            work(jobs)
        except Exception as error:
            for job in jobs:
                if len(jobs) == 1 or job.has_failed:
                    job.error = error
                else:
                    self._together([job], work)

    def _search(self, jobs: Sequence[SearchJob]) -> None:
        searcher = jobs[0].collection.searcher(jobs[0].config)
        filters: dict[tuple[str, str], list[SearchJob]] = {}
        for job in jobs:
            if job.task is None:
                kind = (job.allowed or Filter()).key, (job.filter or Filter()).key
                filters.setdefault(kind, []).append(job)
        for new in filters.values():
            among = searcher if new[0].allowed is None else searcher.only(new[0].allowed)
            tasks = among.tasks(
                [job.query for job in new], [job.qid or "query" for job in new], new[0].hits, filter=new[0].filter
            )
            for job, task in zip(new, tasks, strict=True):
                job.task = task
        for job in jobs:
            if job.task and job.given is not None:
                labels, job.given = job.given, None
                job.task.answer(labels)
        searcher.scheduler(self.collection.request.threads).advance([job.task for job in jobs if job.task])

    def _report(self, jobs: Sequence[SearchJob]) -> None:
        """Tell the list of a search and, if it has ended, its answer; else the labels that it wants."""
        for job in jobs:
            assert job.task is not None
            searcher = job.collection.searcher(job.config)
            if job.streamed or job.rounds:
                scheduler = searcher.scheduler(self.collection.request.threads)
                found = searcher.round_so_far(job.task, scheduler, job.hits, min_relevance=job.min_relevance)
                job.add_list(found, searcher)
            if job.task.outcome is not None:
                job.answer = job.answer_with(searcher)
            else:
                pairs = searcher.pairs(job.task)
                job.wanted = pairs, self.labels.lookup(pairs)


def _until(deadline: float) -> float | None:
    """Seconds until a deadline; None if there is none."""
    return None if math.isinf(deadline) else max(deadline - time.monotonic(), 0.0)
