"""Between requests, which are asynchronous, and searches, which run in threads."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from fastapi import Request

from tour_pyserini.core.config import TourConfig
from tour_pyserini.service.jobs import Job, RerankJob, SearchJob
from tour_pyserini.service.messages import Answer, SearchBody
from tour_pyserini.service.metrics import Metrics
from tour_pyserini.service.request_limits import check_lines, checked_queries, chosen_config
from tour_pyserini.service.request_times import arrival, note_answered
from tour_pyserini.service.search_loop import SearchLoop

_WAKE = 0.02
"""Seconds after which a search that is due looks again whether it has begun."""


class GoneError(Exception):
    """The client has closed its connection."""


class Dispatcher:
    """Hands requests over to the searches, and their answers back.

    Args:
        searches: what does the work.
        metrics: what counts it.
    """

    def __init__(self, searches: SearchLoop, metrics: Metrics) -> None:
        self.searches, self.metrics = searches, metrics
        self.collection = searches.collection

    @property
    def config(self) -> TourConfig:
        """The method and settings of the service, where a request gives none."""
        return self.collection.request.config

    async def search(self, body: SearchBody, request: Request | None = None) -> list[Answer]:
        """The answers to the queries of a request, in their order.

        Raises:
            RequestError: if the request is wrong.
            BusyError: if there is no room for it.
            GoneError: if the client goes away meanwhile.
        """
        searches = self._searches_of(body, request)
        answers = await self._answers(searches, request)
        for answer in answers:
            self.metrics.answer(answer)
        if request:
            note_answered(request, searches)
        else:  # it came by another way, and nobody tells when the answer is sent
            self.sent(searches)
        return answers

    def sent(self, jobs: Sequence[Job]) -> None:
        """Told when the answer that is made of these tasks has been sent."""
        for job in jobs:
            if job.deadline_ms is not None:
                self.metrics.deadline(met=time.monotonic() <= job.deadline)
        self.searches.sent(max(jobs, key=lambda job: job.labelled))

    @contextlib.contextmanager
    def watched(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Report a `BusyError` to tasks of which none has begun when it is too late for them."""
        watch = asyncio.ensure_future(self._watch(jobs))
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self, jobs: Sequence[Job]) -> None:
        latest = min(map(self.searches.latest_start, jobs))
        if math.isinf(latest):
            return
        await asyncio.sleep(max(latest - time.monotonic(), 0))
        # Where one has begun, the others follow: it ends in time, and they then need no more than a retrieval.
        while not any(job.started for job in jobs):
            if error := self.searches.too_late():
                for job in jobs:
                    job.report(error)
                return
            await asyncio.sleep(_WAKE)

    async def rerank(self, query: str, passages: Sequence[str], request: Request) -> list[float]:
        """The raw scores [n] of passages."""
        (scores,) = await self._answers([RerankJob(query=query, passages=passages, report=_nobody)], request)
        return scores

    def begin(self, body: SearchBody, request: Request) -> "Stream":
        """Begin a search of one query whose lists come one by one; raises what `search` does."""
        (search,) = self._searches_of(body, request, streamed=True)
        return Stream(self, search)

    def _searches_of(self, body: SearchBody, request: Request | None, *, streamed: bool = False) -> list[SearchJob]:
        config = chosen_config(body, self.config, self.collection.request)
        if body.settings:
            self.collection.check_settings(body.settings.keys(), config)
        queries = checked_queries(body, self.collection.request)
        if body.rounds or streamed:
            check_lines(len(queries), body.hits, config)
        return [
            SearchJob(
                query=query,
                qid=body.qid,
                hits=body.hits,
                config=config,
                deadline_ms=body.deadline_ms,
                arrived=arrival(request),
                streamed=streamed,
                rounds=body.rounds,
                report=_nobody,
            )
            for query in queries
        ]

    async def _answers(self, jobs: Sequence[Job], request: Request | None) -> list[Any]:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in jobs]
        for job, future in zip(jobs, futures, strict=True):
            job.report = _from_thread(loop, _resolver(future))
        self.searches.submit(jobs)
        together = asyncio.gather(*futures)
        gone = asyncio.ensure_future(_gone(request)) if request else None
        try:
            with self.watched(jobs):
                await asyncio.wait({together, *({gone} if gone else ())}, return_when=asyncio.FIRST_COMPLETED)
            if not together.done():
                raise GoneError
            return list(together.result())
        finally:
            for job in jobs:
                job.cancelled.set()  # one that has ended does not mind
            self.searches.wake()
            for waiting in (together, gone):
                if waiting is not None:
                    waiting.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await waiting


class Stream:
    """The messages of one search, as they come.

    Attributes:
        search: the search, which has been submitted.
    """

    def __init__(self, dispatcher: Dispatcher, search: SearchJob) -> None:
        self.search, self._dispatcher = search, dispatcher
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        search.report = _from_thread(asyncio.get_running_loop(), self._messages.put_nowait)
        dispatcher.searches.submit([search])

    async def messages(self) -> AsyncIterator[Any]:
        """Each `Round`, then the `Answer` or an exception; who stops listening cancels the search."""
        try:
            with self._dispatcher.watched([self.search]):
                while True:
                    message = await self._messages.get()
                    if isinstance(message, Answer):
                        self._dispatcher.metrics.answer(message)
                    yield message
                    if isinstance(message, Answer):
                        self._dispatcher.sent([self.search])
                    if isinstance(message, Answer | Exception):
                        return
        finally:
            self.search.cancelled.set()
            self._dispatcher.searches.wake()


async def _gone(request: Request) -> None:
    """Wait until the client closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _resolver(future: "asyncio.Future[Any]") -> Callable[[Any], None]:
    def resolve(message: Any) -> None:
        if future.done():
            return
        if isinstance(message, Exception):
            future.set_exception(message)
        else:
            future.set_result(message)

    return resolve


def _from_thread(loop: asyncio.AbstractEventLoop, function: Callable[[Any], None]) -> Callable[[Any], None]:
    def report(message: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            loop.call_soon_threadsafe(function, message)

    return report


def _nobody(_: Any) -> None:
    """Replaced before the task is submitted."""
