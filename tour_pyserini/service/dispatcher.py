"""Between requests and searches: from a body to jobs, and from jobs to answers; everything is counted."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any

from fastapi import BackgroundTasks, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.searchers.list_reranker import DocumentList, RankedDocument
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.jobs import Job, SearchJob
from tour_pyserini.service.messages import Answer, Problem, RerankBody, Round, SearchBody
from tour_pyserini.service.search_loop import BusyError, SearchLoop
from tour_pyserini.service.serving import Keys, ServeRequest
from tour_pyserini.stores.filters import Filter

log = logging.getLogger(__name__)

MOST_UPDATES = 100
MOST_LINES = 50_000
"""Lines of all lists of a request whose rounds are told, about a kilobyte each."""
ARRIVED = "tour_pyserini.arrived"
"""Where the scope of a request says when it came, by the clock `time.monotonic`."""
ALLOWED = "tour_pyserini.allowed"
"""Where the scope of a request says which documents its key may find: a filter, or None for all."""


class _Metrics:
    """Figures for Prometheus: requests, answers, labels, and what the searches know by themselves."""

    def __init__(self, searches: SearchLoop) -> None:
        registry = self.registry = CollectorRegistry()
        seconds = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)
        labels = (0, 1, 2, 5, 10, 20, 30, 50, 100, 200)
        self.requests = Counter("tour_requests", "answers by status", ["route", "status"], registry=registry)
        self.stops = Counter("tour_searches", "searches that ended, by why", ["stop"], registry=registry)
        self.deadlines = Counter("tour_deadlines", "deadlines met and missed", ["met"], registry=registry)
        self.seconds = Histogram("tour_search_seconds", "from arrival to answer", buckets=seconds, registry=registry)
        self.waited = Histogram("tour_waited_seconds", "from arrival to start", buckets=seconds, registry=registry)
        self.labels = Histogram("tour_labels", "labels of a search", buckets=labels, registry=registry)
        for name, text, value in (
            ("running", "searches that advance together", lambda: searches.running),
            ("waiting", "searches that wait for their turn", lambda: searches.waiting),
            ("pairs_waiting", "pairs that wait for a call of the re-ranker", lambda: searches.labels.waiting),
        ):
            Gauge(f"tour_{name}", text, registry=registry).set_function(value)


class Dispatcher:
    """Hands requests over to the searches, and their answers back.

    Attributes:
        limits: what is served, and how much a request may ask for.
        searches: what does the work.
        keys: the keys of which requests must have one, and what each may find; None: everybody may ask.
    """

    def __init__(self, collection: Collection, keys: Keys | None = None) -> None:
        self.limits, self.keys = collection.request, _checked(keys, collection)
        self.searches = SearchLoop(collection)
        self._reloading = asyncio.Lock()
        self._metrics = _Metrics(self.searches)

    @property
    def collection(self) -> Collection:
        """What is searched."""
        return self.searches.collection

    async def reload(self) -> Collection:
        """Open the collection and the keys again; searches that have begun end with what they began with.

        Raises:
            TourError: if something is missing or wrong; the service then goes on with what it has.
        """
        try:
            async with self._reloading:
                collection = await asyncio.to_thread(self.collection.reopened)
                if self.limits.keys:
                    self.keys = await asyncio.to_thread(lambda: _checked(self.limits.read_keys(), collection))
                self.searches.collection = collection
        except Exception as error:
            log.error("not reloaded: %s", error)
            raise
        log.warning("reloaded %s: %d documents", self.collection.name, self.collection.size)
        return self.collection

    def count(self, route: str, status: int) -> None:
        """Count an answer of the service."""
        self._metrics.requests.labels(route, str(status)).inc()

    def figures(self) -> bytes:
        """What was counted, in Prometheus' format."""
        return generate_latest(self._metrics.registry)

    async def search(
        self,
        body: SearchBody,
        allowed: Filter | None,
        request: Request | None = None,
        after: BackgroundTasks | None = None,
    ) -> Answer:
        """The answer to a request.

        Args:
            body: what is searched.
            allowed: which documents its key may find; None: all.
            request: where it came from.
            after: what is done after the answer has been sent.

        Raises:
            RequestError: if the request is wrong.
            BusyError: if there is no room for it.
            ClientDisconnect: if the client goes away meanwhile.
            Exception: if the service has failed.
        """
        job = self.new_job(body, allowed, request)
        with self._submitted(job):
            answer: Answer = await _unless_gone(request, self._answer(job))
        if after is None:
            await self.answer_sent(job)
        else:
            after.add_task(self.answer_sent, job)
        return answer

    async def rerank(self, query: str, passages: Sequence[str], request: Request) -> list[float]:
        """The raw scores [n] of passages; raises what `search` does."""
        if len(passages) > self.limits.most_labels:
            raise RequestError(f"a request has 1 to {self.limits.most_labels} passages, not {len(passages)}.")
        job = Job(arrived=_arrival(request))
        with self._submitted(job):
            pairs = [(query, passage) for passage in passages]
            scores: list[float] = await _unless_gone(request, self.searches.rerank(job, pairs))
            return scores

    async def rank(self, body: RerankBody, request: Request) -> list[RankedDocument]:
        """The passages of a list, best first, by the service's method and a budget; raises what `search` does."""
        if len(body.passages) > self.limits.most_hits:
            raise RequestError(f"a list has 1 to {self.limits.most_hits} passages, not {len(body.passages)}.")
        config = _chosen_config(SearchBody(query=body.query, budget=body.budget), self.limits)
        try:
            work = DocumentList(body.query, body.passages, scores=body.scores).task(config)
        except TourError as error:
            raise RequestError(error) from error
        job = Job(arrived=_arrival(request))
        with self._submitted(job):
            await _unless_gone(request, self.searches.rank(job, work))
        return work.ranked(body.passages)

    def stream(self, body: SearchBody, allowed: Filter | None, request: Request) -> StreamingResponse:
        """The lists of a search, as they come, and its answer or why there is none; raises what `search` does."""
        job = self.new_job(body, allowed, request, streamed=True)
        self.searches.submit(job)
        return _EventStream(self, job)

    async def events(self, job: SearchJob) -> AsyncIterator[bytes]:
        """The server-sent events of a search that was submitted."""
        yield _event("settings", job.settings())
        try:
            async for message in self.searches.search(job):
                if isinstance(message, Answer):
                    self._count_search(message)
                yield _event("round" if isinstance(message, Round) else "answer", message)
        except Exception as error:
            yield _event("error", Problem(detail=sentence(error)))
        else:
            await self.answer_sent(job)

    async def answer_sent(self, job: SearchJob) -> None:
        """Told when the answer of a job has been sent."""
        if job.deadline_ms is not None:
            self._metrics.deadlines.labels("yes" if time.monotonic() <= job.deadline else "no").inc()
        self.searches.answer_sent(job)

    def new_job(self, body: SearchBody, allowed: Filter | None, request: Request | None, **options: Any) -> SearchJob:
        """The job of a request.

        Raises:
            RequestError: if the request asks for what it may not have.
        """
        config = _chosen_config(body, self.limits)
        if "signal_weight" in body.settings and not self.collection.request.has_signals:
            raise RequestError("signal_weight changes nothing here: the index is the only signal; leave it out.")
        least = self.limits.min_relevance if body.min_relevance is None else body.min_relevance
        if least and config.calibration is None:
            raise RequestError("min_relevance needs probabilities: the service's own method with what `tune` wrote.")
        job = SearchJob(
            **body.model_dump(include={"query", "qid", "hits", "deadline_ms", "rounds"}),
            config=config,
            min_relevance=least,
            allowed=allowed,
            filter=_chosen_filter(body.filter, allowed),
            arrived=_arrival(request),
            **options,
        )
        lists = 1 + (config.values().get("iterations") or -(-config.most_labels // config.values().get("depth", 1)))
        if (job.rounds or job.streamed) and (lines := job.hits * lists) > MOST_LINES:
            raise RequestError(
                f"the rounds of {job.hits} hits may have {lines} lines, and this service tells {MOST_LINES} at most; "
                "ask for fewer hits, or without rounds."
            )
        return job

    @contextlib.contextmanager
    def _submitted(self, job: Job) -> Iterator[None]:
        self.searches.submit(job)
        try:
            yield
        finally:
            self.searches.leave(job)

    async def _answer(self, job: SearchJob) -> Answer:
        async for _ in self.searches.search(job):
            pass
        assert job.answer is not None
        self._count_search(job.answer)
        return job.answer

    def _count_search(self, answer: Answer) -> None:
        self._metrics.stops.labels(answer.stop).inc()
        self._metrics.seconds.observe(answer.costs.milliseconds / 1000)
        self._metrics.waited.observe(answer.costs.waited_ms / 1000)
        self._metrics.labels.observe(answer.costs.labels)


class _EventStream(StreamingResponse):
    """The messages of a search as server-sent events; the search ends with it, also when its client goes away."""

    def __init__(self, dispatcher: Dispatcher, job: SearchJob) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(dispatcher.events(job), media_type="text/event-stream", headers=headers)
        self._searches, self._job = dispatcher.searches, job

    async def __call__(self, *request: Any) -> None:
        try:  # not in the generator: it may be that nobody ever asks for its first event
            await super().__call__(*request)
        finally:
            self._searches.leave(self._job)


def _event(name: str, message: BaseModel) -> bytes:
    return f"event: {name}\ndata: {message.model_dump_json()}\n\n".encode()  # JSON has no line breaks of its own


def _arrival(request: Request | None) -> float:
    """When a request came, by the clock `time.monotonic`; one that did not come over HTTP comes now."""
    now = time.monotonic()
    return float(request.scope.get(ARRIVED, now)) if request else now


def _checked(keys: Keys | None, collection: Collection) -> Keys | None:
    """The keys, if the filter of each fits the collection."""
    for allowed in keys.values() if keys else ():
        collection.size_of(allowed)
    return keys


def _chosen_filter(given: Any, allowed: Filter | None) -> Filter | None:
    """The filter of a request.

    Raises:
        RequestError: if it is none. Beside the filter of a key, it is not handed to a database as it was written.
    """
    chosen = None if given is None else Filter.parse(given)
    if chosen and chosen.expressions and allowed is not None:
        raise RequestError("a filter is a condition on fields, or a list of docids, for a key that has one itself.")
    return chosen


def _chosen_config(body: SearchBody, limits: ServeRequest) -> TourConfig:
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
    }
    for name, (value, most) in allowed.items():
        if value > most:
            raise RequestError(f"the {name} is {value!s:.40}, and this service allows {most:g} at most.")
    return config


def sentence(error: Exception) -> str:
    """Why there is no answer, for whoever asked; what a request is not to blame for is told to the log only."""
    if isinstance(error, RequestError | BusyError):
        return str(error)
    if isinstance(error, ValidationError | RequestValidationError):
        fault = error.errors()[0]
        parts = [str(part) for part in fault["loc"][isinstance(error, RequestValidationError) :]]  # without "body"
        where = ".".join(part for part in parts if part.isidentifier() or part.isdecimal())  # others are types' names
        if fault["type"] == "json_invalid" or (not where and fault["type"] in ("model_attributes_type", "missing")):
            return "the body is no JSON object; send one, with the header Content-Type: application/json."
        return f"{where or 'the body'}: {fault['msg'].removeprefix('Value error, ')[:300]}."  # without the value
    log.error("a request failed", exc_info=error)
    return "the service has failed; its log says why."


async def _unless_gone(request: Request | None, work: Coroutine[Any, Any, Any]) -> Any:
    """Do work, unless the client closes its connection before it is done."""
    if request is None:
        return await work
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnect
        return tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
