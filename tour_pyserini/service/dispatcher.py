"""Between requests, which are asynchronous, and searches, which run in threads: from a body to jobs, and back."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from fastapi import Request

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.service.jobs import Job, RerankJob, SearchJob
from tour_pyserini.service.messages import Answer, SearchBody
from tour_pyserini.service.metrics import Metrics
from tour_pyserini.service.middleware import arrival, note_answered
from tour_pyserini.service.search_loop import BusyError, SearchLoop
from tour_pyserini.service.serve_request import ServeRequest

MOST_UPDATES = 100
LONGEST_DEADLINE = 600_000.0
"""Milliseconds."""
MOST_LINES = 50_000
"""Lines of all lists of a request whose rounds are told, about a kilobyte each."""
_WAKE = 0.02
"""Seconds after which a search that is due looks again whether it has begun."""


class GoneError(Exception):
    """The client has closed its connection."""


class Dispatcher:
    """Hands requests over to the searches, and their answers back.

    Args:
        searches: what does the work.
        metrics: what counts it.

    Attributes:
        collection: what is searched.
        limits: what is served, and how much a request may ask for.
    """

    def __init__(self, searches: SearchLoop, metrics: Metrics) -> None:
        self.searches, self.metrics = searches, metrics
        self.collection = searches.collection
        self.limits = self.collection.request

    async def search(self, body: SearchBody, request: Request | None = None) -> list[Answer]:
        """The answers to the queries of a request, in their order.

        Raises:
            RequestError: if the request is wrong.
            BusyError: if there is no room for it.
            FailedError: if the service has failed.
            GoneError: if the client goes away meanwhile.
        """
        jobs = self._new_jobs(body, request)
        answers = await self._answers(jobs, request)
        for answer in answers:
            self.metrics.answer(answer)
        if request:
            note_answered(request, jobs)
        else:  # it came by another way, and nobody tells when the answer is sent
            self.sent(jobs)
        return answers

    async def rerank(self, query: str, passages: Sequence[str], request: Request) -> list[float]:
        """The raw scores [n] of passages; raises what `search` does."""
        check_query(query, self.limits)
        if not 1 <= len(passages) <= self.limits.most_labels:
            raise RequestError(f"a request has 1 to {self.limits.most_labels} passages, not {len(passages)}.")
        for passage in passages:
            check_characters(passage, "a document")
        (scores,) = await self._answers([RerankJob(query=query, passages=passages, report=_nobody)], request)
        return scores

    def begin(self, body: SearchBody, request: Request) -> "Stream":
        """Begin a search of one query whose lists come one by one, to be `watched`; raises what `search` does."""
        (job,) = self._new_jobs(body, request, streamed=True)
        return Stream(self, job)

    def sent(self, jobs: Sequence[Job]) -> None:
        """Told when the answer that is made of these jobs has been sent."""
        for job in jobs:
            if job.deadline_ms is not None:
                self.metrics.deadline(met=time.monotonic() <= job.deadline)
        self.searches.sent(max(jobs, key=lambda job: job.labelled))

    @contextlib.contextmanager
    def watched(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Report a `BusyError` to jobs of which none has begun when it is too late; in the end, cancel them."""
        watch = asyncio.ensure_future(self._watch(jobs))
        try:
            yield
        finally:
            watch.cancel()
            self.searches.cancel(jobs)

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

    def _new_jobs(self, body: SearchBody, request: Request | None, *, streamed: bool = False) -> list[SearchJob]:
        config = chosen_config(body, self.limits)
        self.collection.check_settings(body.settings.keys(), config)
        queries = checked_queries(body, self.limits)
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
        """Each `Round`, then the `Answer` or an exception."""
        message = None
        while not isinstance(message, Answer | Exception):
            message = await self._messages.get()
            if isinstance(message, Answer):
                self._dispatcher.metrics.answer(message)
            yield message
        if isinstance(message, Answer):
            self._dispatcher.sent([self.search])


def sentence(error: Exception) -> str:
    """Why there is no answer, for whoever asked; it says nothing of this machine."""
    return str(error) if isinstance(error, RequestError | BusyError) else "the service has failed; its log says why."


# What a request may ask for


def chosen_config(body: SearchBody, limits: ServeRequest) -> TourConfig:
    """The settings of a request, over those of the service.

    Raises:
        RequestError: if a setting is unknown or wrong, or asks for more than the service allows.
    """
    for name in ("method", "preset"):
        if name in body.settings:
            raise RequestError(f"{name!r} is not a setting; give it beside `settings`.")
    given = {"method": body.method, "budget": body.budget}
    changes: dict[str, Any] = {**body.settings, **{name: value for name, value in given.items() if value is not None}}
    try:
        config = limits.config if body.preset is None else TourConfig.preset(body.preset)
        config = config.replace(**changes) if changes else config
    except TourError as error:
        raise RequestError(error) from error
    allowed = {
        "hits": (body.hits, limits.most_hits),
        "depth": (config.values().get("depth", 0), limits.most_hits),
        "budget, or depth times rounds,": (config.most_labels, limits.most_labels),
        "number of updates": (config.values().get("iterations", 0), MOST_UPDATES),
        "deadline_ms": (body.deadline_ms or 0, LONGEST_DEADLINE),
    }
    for name, (value, most) in allowed.items():
        if value > most:
            raise RequestError(f"the {name} is {value!s:.40}, and this service allows {most:g} at most.")
    return config


def checked_queries(body: SearchBody, limits: ServeRequest) -> list[str]:
    """The queries of a request.

    Raises:
        RequestError: if there is none, one is empty or too long, or there are too many.
    """
    queries = [body.query] if isinstance(body.query, str) else list(body.query)
    most = min(limits.most_queries, limits.queue + limits.at_once)  # for more there is never room
    if not 1 <= len(queries) <= most:
        raise RequestError(f"a request has 1 to {most} queries, not {len(queries)}.")
    for query in queries:
        check_query(query, limits)
    return queries


def check_lines(queries: int, hits: int, config: TourConfig) -> None:
    """Refuse lists of all rounds that would take too much memory."""
    rounds = config.values().get("iterations") or -(-config.most_labels // config.values().get("depth", 1))
    if (lines := queries * hits * (rounds + 1)) > MOST_LINES:
        raise RequestError(
            f"the rounds of {queries} queries with {hits} hits may have {lines} lines, and this service tells "
            f"{MOST_LINES} at most; ask for fewer hits or queries, or without rounds."
        )


def check_query(query: str, limits: ServeRequest) -> None:
    """Refuse a query that is empty, too long or no text."""
    check_characters(query, "the query")
    if not query.strip():
        raise RequestError("the query is empty; give it a text.")
    if len(query) > limits.most_characters:
        raise RequestError(
            f"the query has {len(query)} characters; this service allows {limits.most_characters} at most."
        )


def check_characters(text: str, what: str) -> None:
    """Refuse what JSON can hold and no model reads: halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestError(f"{what} has half of a surrogate pair, which is no character; send it as UTF-8.") from None


# Between threads and the event loop


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
    """Replaced before a job is submitted."""
