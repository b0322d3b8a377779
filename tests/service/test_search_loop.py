"""The queue and the two threads: what runs together, what fails, who goes away, deadlines, labels in one call."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from in_memory_collection import GatedReranker, InMemoryCollection
from own_loop import awaited

from tour_pyserini import TourConfig, method
from tour_pyserini.core.method import Outcome, Search, StopReason
from tour_pyserini.core.settings import MethodSettings
from tour_pyserini.errors import RequestError
from tour_pyserini.searchers.label_time import LabelCost
from tour_pyserini.service import search_loop
from tour_pyserini.service.jobs import Job, SearchJob
from tour_pyserini.service.messages import Answer
from tour_pyserini.service.search_loop import BusyError, LabelQueue, SearchLoop


async def until(condition):
    """Let the event loop go on until something has happened."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)


class Memory:
    """A loop of three searches at once and two that wait; labels wait until the gate is open."""

    def __init__(self):
        self.collection = InMemoryCollection(at_once=3, queue=2)
        self.reranker = self.collection.reranker
        self.loop = SearchLoop(self.collection)
        self.labels = self.loop.labels

    def ask(self, query="a", *, passages=(), config=None, **options):
        """Submit a job; its task, whose result is what `search` or `rerank` gives, or the error."""
        config = config or TourConfig(depth=5)
        job = Job(**options) if passages else SearchJob(query=query, hits=5, config=config, **options)
        self.loop.submit(job)
        task = asyncio.ensure_future(self.result(job, [(query, passage) for passage in passages]))
        task.add_done_callback(lambda _: self.loop.leave(job))
        task.job = job
        return task

    async def result(self, job, pairs):
        try:
            return await self.loop.rerank(job, pairs) if pairs else [one async for one in self.loop.search(job)]
        except Exception as error:
            return error

    async def labelling(self, *queries):
        """Searches that wait for labels."""
        tasks = [self.ask(query) for query in queries]
        await until(lambda: all(task.job.task and task.job.task.waits_for_labels for task in tasks))
        return tasks


@asynccontextmanager
async def opened(*, gate=False):
    memory = Memory()
    if gate:
        memory.reranker.gate.set()
    try:
        yield memory
    finally:
        memory.reranker.gate.set()
        await asyncio.to_thread(memory.loop.close)


def within(opened, **options):
    """Make a plain test of a coroutine, which is given what was opened; it has an event loop of its own."""

    def decorate(test):
        async def work():
            async with opened(**options) as made:
                await test(made)

        def run():
            awaited(work())

        run.__doc__ = test.__doc__
        return run

    return decorate


def hits_of(answer):
    return [(hit.docid, hit.score) for hit in answer.candidates]


@within(opened, gate=True)
async def test_searches_with_several_settings_and_re_ranking_go_on_together(memory):
    configs = [TourConfig(depth=5), TourConfig("hard", depth=4), TourConfig("dense")]
    tasks = [memory.ask("a" * n, config=config) for n, config in enumerate(configs, start=1)]
    scores = memory.ask("b", passages=["one", "four"])
    for number, (config, task) in enumerate(zip(configs, tasks, strict=True), start=1):
        alone = memory.collection.searcher(config).search("a" * number, k=5)
        assert hits_of((await task)[-1]) == [(hit.docid, hit.score) for hit in alone]
    assert await scores == [3.0, 4.0]
    await until(lambda: not memory.loop.running)


@within(opened)
async def test_searches_at_the_same_time_share_the_calls_of_index_and_re_ranker(memory):
    tasks = [memory.ask("a" * number) for number in (1, 2, 3)]
    await until(lambda: memory.labels.waiting or memory.reranker.calls)
    memory.reranker.gate.set()
    await asyncio.gather(*tasks)
    assert len(memory.reranker.calls[0]) + len(memory.reranker.calls[1]) >= 15


@method(MethodSettings)
def refusing(query, settings):
    found = yield Search(query.vector, query.hits)
    if query.text.startswith("wrong"):
        raise RequestError("this query is wrong")
    if query.text.startswith("broken"):
        raise ZeroDivisionError
    return Outcome(query.vector, found, StopReason.ROUNDS)


@within(opened, gate=True)
async def test_a_search_that_fails_fails_no_other(memory):
    """Its query cannot be encoded, its method fails, or the re-ranker fails with it."""
    tasks = [memory.ask(query, config=TourConfig(refusing)) for query in ("wrong", "fine", "broken")]
    wrong, fine, broken = [await task for task in tasks]
    assert str(wrong) == "this query is wrong" and isinstance(fine[-1], Answer)
    assert isinstance(broken, ZeroDivisionError)
    tasks = [memory.ask(query) for query in ("unknown", "bad", "aa")]
    unknown, bad, fine = [await task for task in tasks]
    assert isinstance(unknown, Exception) and str(bad) == "bad passage" and isinstance(fine[-1], Answer)
    calls = len(memory.reranker.calls)
    tasks = [memory.ask("bad"), memory.ask("bad one"), memory.ask("bad", passages=["a"])]
    assert {str(await task) for task in tasks} == {"bad passage"}
    assert len(memory.reranker.calls) <= calls + 6  # at most once together, and once each
    assert isinstance((await memory.ask())[-1], Answer)  # the threads go on


@within(opened)
async def test_who_finds_no_room_is_sent_away(memory):
    await memory.labelling("a", "a", "a")
    with pytest.raises(BusyError, match="deadline would pass"):
        memory.ask(deadline_ms=1)
    assert memory.loop.waiting == 0 and memory.loop.room == 2
    late = memory.ask()
    memory.ask()
    with pytest.raises(BusyError, match="2 searches are waiting") as busy:
        memory.ask()
    assert busy.value.retry_after >= 1 and memory.loop.room == 0
    memory.reranker.gate.set()
    assert isinstance((await late)[-1], Answer)
    await until(lambda: not memory.loop.running)


@within(opened)
async def test_who_is_due_first_begins_first_and_who_comes_too_late_is_told(memory):
    begun = await memory.labelling("a", "a", "a")
    memory.loop._seconds.append(0.001)  # by what it has seen, the queue is short
    patient, urgent = memory.ask("aa"), memory.ask("aaa", deadline_ms=900)
    begun[0].cancel()
    await until(lambda: urgent.job.started)
    assert not patient.job.started
    late = memory.ask("a", deadline_ms=200)
    assert "in the queue" in str(await late)
    await until(lambda: memory.loop.waiting == 1)
    memory.reranker.gate.set()
    assert isinstance((await patient)[-1], Answer) and isinstance((await urgent)[-1], Answer)


@within(opened)
async def test_who_goes_away_makes_room_and_stops_costing(memory):
    running = await memory.labelling("a", "a", "a")
    waiting = [memory.ask(), memory.ask()]
    waiting[0].cancel()
    await until(lambda: memory.loop.waiting == 1)
    for task in (*running, *waiting):
        task.cancel()
    await until(lambda: memory.loop.running == memory.loop.waiting == memory.labels.waiting == 0)
    calls = len(memory.reranker.calls)
    memory.reranker.gate.set()
    assert isinstance((await memory.ask("aa"))[-1], Answer) and calls <= 1


@within(opened, gate=True)
async def test_many_searches_that_come_and_go_all_end(memory):
    """Deadlines, failures and clients that go away, at the same time: nothing is lost and nothing is left."""
    tasks = []
    for number in range(60):
        options = {"deadline_ms": 30} if number % 3 == 0 else {}
        await until(lambda: memory.loop.room > 0)
        query = "bad" if number % 7 == 0 else "a" * (number % 5 + 1)
        try:
            tasks.append(memory.ask(query, streamed=number % 4 == 0, **options))
        except BusyError:
            continue
        if number % 5 == 0:
            await asyncio.sleep(0.001 * (number % 4))
            tasks.pop().cancel()
    results = await asyncio.gather(*tasks)
    assert len(results) > 30
    assert all(isinstance(one, Exception) or isinstance(one[-1], Answer) for one in results)
    assert sum(isinstance(one, ValueError) and "bad" in str(one) for one in results) <= 9
    await until(lambda: memory.loop.running == memory.loop.waiting == memory.labels.waiting == 0)


# Labels


@asynccontextmanager
async def label_queue(*, gate=True):
    """A queue whose first call is under way if the gate is shut: what is asked for meanwhile waits for the next."""
    reranker = GatedReranker()
    queue = LabelQueue(reranker, LabelCost())
    queue.reranker, queue.first = reranker, None
    if gate:
        reranker.gate.set()
    else:
        queue.first = asyncio.ensure_future(ask(queue, "a"))
        await until(lambda: reranker.calls)
    yield queue
    reranker.gate.set()
    await asyncio.to_thread(queue.close)


async def ask(queue, *passages, seconds=float("inf")):
    return (await queue.ask([("q", passage) for passage in passages], time.monotonic() + seconds)).tolist()


async def asked(*requests):
    """Tasks of requests that have been asked for."""
    tasks = [asyncio.ensure_future(request) for request in requests]
    await asyncio.sleep(0)
    return tasks


@within(label_queue, gate=False)
async def test_what_waits_goes_into_one_call_in_the_order_in_which_it_is_due(queue):
    queue.cost.learn([("q", "x")] * 4, 0.001)
    later, urgent = await asked(ask(queue, "bb", "ccc"), ask(queue, "dddd", seconds=0.9))
    assert queue.waiting == 3
    queue.reranker.gate.set()
    assert [await one for one in (queue.first, later, urgent)] == [[1.0], [2.0, 3.0], [4.0]]
    assert queue.reranker.calls == [["a"], ["dddd", "bb", "ccc"]]


@within(label_queue, gate=False)
async def test_a_passage_that_fails_does_not_harm_the_others_of_its_call(queue):
    good, bad, other = await asked(ask(queue, "bb", "ccc"), ask(queue, "x", "bad"), ask(queue, "dddd"))
    queue.reranker.gate.set()
    with pytest.raises(ValueError, match="bad passage"):
        await bad
    assert [await one for one in (queue.first, good, other)] == [[1.0], [2.0, 3.0], [4.0]]
    assert sorted(queue.reranker.calls[1]) == ["bad", "bb", "ccc", "dddd", "x"]
    assert sorted(queue.reranker.calls[2:]) == [["bb", "ccc"], ["dddd"], ["x", "bad"]]
    assert await ask(queue, "eeeee") == [5.0]


def test_a_service_that_is_down_is_not_asked_for_each_search(monkeypatch):
    monkeypatch.setattr(search_loop, "DOWN_SECONDS", 0.0)

    async def work():
        async with label_queue(gate=False) as queue:
            failing = await asked(ask(queue, "bad"), ask(queue, "bb"))
            queue.reranker.gate.set()
            for one in failing:
                with pytest.raises(ValueError, match="bad passage"):
                    await one
            assert await queue.first == [1.0] and len(queue.reranker.calls) == 2

    awaited(work())
