"""Between requests and searches: limits of a body, deadlines in the queue, clients that go away, what is counted."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from in_memory_collection import InMemoryCollection, wait_until
from own_loop import awaited

from tour_pyserini import TourConfig
from tour_pyserini.errors import RequestError
from tour_pyserini.searchers.label_time import LabelCost
from tour_pyserini.service.dispatcher import Dispatcher, GoneError, chosen_config
from tour_pyserini.service.jobs import SearchJob
from tour_pyserini.service.label_thread import LabelThread
from tour_pyserini.service.messages import Answer, Round, SearchBody
from tour_pyserini.service.metrics import Metrics
from tour_pyserini.service.search_loop import BusyError, SearchLoop
from tour_pyserini.service.serve_request import ServeRequest

LIMITS = ServeRequest(config=TourConfig("hard", depth=5, iterations=2))


@pytest.fixture
def memory():
    """A dispatcher with one search at a time; labels wait until the gate is open."""
    collection = InMemoryCollection()
    labels = LabelThread(collection.reranker, LabelCost())
    loop = SearchLoop(collection, labels, at_once=1, queue=8)
    metrics = Metrics(loop)
    yield SimpleNamespace(
        dispatcher=Dispatcher(loop, metrics), loop=loop, gate=collection.reranker.gate, metrics=metrics
    )
    collection.reranker.gate.set()
    loop.close()
    labels.close()


def counted(memory, name):
    lines = memory.metrics.text().decode().splitlines()
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith(name + "{")}


async def hung_search(memory):
    """A search that runs until the gate is open."""
    memory.gate.set()
    await memory.dispatcher.search(SearchBody(query="a"))  # by what it has seen, the queue is short
    memory.gate.clear()
    running = asyncio.ensure_future(memory.dispatcher.search(SearchBody(query="hung")))
    async with asyncio.timeout(10):
        while not memory.loop.running:
            await asyncio.sleep(0.001)
    return running


def test_who_waits_behind_a_search_that_hangs_is_told_at_the_deadline(memory):
    async def work():
        running = await hung_search(memory)
        async with asyncio.timeout(20):
            with pytest.raises(BusyError, match="in the queue"):
                await memory.dispatcher.search(SearchBody(query=["a", "b"], deadline_ms=400))
            stream = memory.dispatcher.begin(SearchBody(query="a", deadline_ms=400), None)
            with memory.dispatcher.watched([stream.search]):
                messages = [message async for message in stream.messages()]
        assert [type(message) for message in messages] == [BusyError] and not running.done()
        assert memory.loop.waiting == 0
        memory.gate.set()
        await running

    awaited(work())


def test_a_deadline_that_is_shorter_than_anything_is_no_reason_to_send_away(memory):
    (answer,) = awaited(memory.dispatcher.search(SearchBody(query="a", deadline_ms=0.001)))
    assert answer.query.query_txt == "a" and answer.costs.labels == 0


def test_of_several_queries_one_that_has_begun_is_enough(memory):
    body = SearchBody(query=["a", "bb", "ccc"], deadline_ms=100)
    answers = awaited(memory.dispatcher.search(body))
    assert [answer.query.query_txt for answer in answers] == ["a", "bb", "ccc"]
    assert counted(memory, "tour_searches_total") == {"the deadline came": 3}


def test_a_stream_ends_with_the_answer_and_is_counted(memory):
    async def work():
        stream = memory.dispatcher.begin(SearchBody(query="a", deadline_ms=60_000), None)
        with memory.dispatcher.watched([stream.search]):
            return [message async for message in stream.messages()]

    memory.gate.set()
    *rounds, answer = awaited(work())
    assert {type(one) for one in rounds} == {Round} and isinstance(answer, Answer)
    assert counted(memory, "tour_searches_total") == {answer.stop: 1}
    assert counted(memory, "tour_deadlines_total") == {"yes": 1}


@pytest.mark.parametrize("how", ["the client goes", "the coroutine is cancelled", "nobody reads the stream"])
def test_who_goes_away_leaves_nothing_behind(memory, how):
    async def receive():
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    async def work():
        request = SimpleNamespace(scope={}, receive=receive)
        if how == "the client goes":
            with pytest.raises(GoneError):
                await memory.dispatcher.search(SearchBody(query=["a", "bb"]), request)
        elif how == "the coroutine is cancelled":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await memory.dispatcher.search(SearchBody(query=["a", "bb"]))
        else:
            with memory.dispatcher.watched([memory.dispatcher.begin(SearchBody(query="a"), request).search]):
                pass

    awaited(work())
    wait_until(lambda: memory.loop.running == memory.loop.waiting == 0)


def test_deadlines_are_counted_when_the_answer_has_been_sent(memory):
    def job(seconds):
        came, patience = time.monotonic() - 10, 1000 * (10 + seconds)
        return SearchJob(query="a", report=print, hits=1, config=TourConfig(), arrived=came, deadline_ms=patience)

    memory.dispatcher.sent([job(60), job(60), job(-1)])
    memory.dispatcher.sent([SearchJob(query="a", report=print, hits=1, config=TourConfig())])
    assert counted(memory, "tour_deadlines_total") == {"yes": 2, "no": 1}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, TourConfig("hard", depth=5, iterations=2)),
        ({"settings": {"depth": 7}}, TourConfig("hard", depth=7, iterations=2)),
        ({"method": "soft"}, TourConfig("soft", depth=5, iterations=2)),
        ({"method": "tour", "budget": 20, "settings": {"step": "0.3"}}, TourConfig(depth=5, budget=20, step=0.3)),
        ({"preset": "default"}, TourConfig()),
        ({"preset": "rerank", "settings": {"depth": 30}}, TourConfig.preset("rerank").replace(depth=30)),
    ],
)
def test_settings_of_a_request_stand_over_those_of_the_service(body, wanted):
    assert chosen_config(SearchBody(query="a", **body), LIMITS) == wanted


REFUSED = {
    "an unknown preset": ({"preset": "none"}, "preset"),
    "a method among settings": ({"settings": {"method": "hard"}}, "beside"),
    "many updates": ({"settings": {"iterations": 101, "depth": 1}}, "updates"),
    "a long deadline": ({"deadline_ms": 600_001}, "deadline_ms"),
    "many labels": ({"settings": {"depth": 100}}, "depth times rounds"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_request_may_not_ask_for(name):
    body, word = REFUSED[name]
    with pytest.raises(RequestError, match=word):
        chosen_config(SearchBody(query="a", **body), LIMITS)
