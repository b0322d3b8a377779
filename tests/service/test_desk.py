"""Requests that wait for their turn: deadlines in the queue, and what is counted when an answer has been sent."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest
from own_loop import awaited
from tour_pyserini.service.desk import Desk
from tour_pyserini.service.searches import BusyError, Searches
from tour_pyserini.service.tasks import Search

from tour_pyserini.core.config import TourConfig
from tour_pyserini.service.messages import Answer, Costs, QueryInfo, SearchBody, Settings
from tour_pyserini.service.metrics import Metrics
from tour_pyserini.service.serve_request import ServeRequest


class StubCollection:
    request = ServeRequest(config=TourConfig(depth=5))

    def try_search(self):
        return 0.0

    def check_settings(self, given, config):
        pass


def answer_of(search):
    settings = Settings(
        method="dense",
        settings={},
        most_labels=0,
        hits=1,
        deadline_ms=search.deadline_ms,
        index="",
        documents=1,
        reranker=None,
    )
    costs = Costs(labels=0, scored=0, updates=0, milliseconds=0, waited_ms=0, label_ms=0)
    query = QueryInfo(qid="", query_txt=search.query)
    return Answer(query=query, candidates=[], stop="deadline", settings=settings, costs=costs)


@pytest.fixture
def stub():
    """A desk with one thread for searches: `hung` waits until the gate is open, others until their deadline."""
    pool = SimpleNamespace(waiting=0, calls=0, labels=0, cost=SimpleNamespace(margin=1.0))
    searches, gate = Searches(StubCollection(), pool, at_once=1, queue=8), threading.Event()

    def answer(search):
        if search.query == "hung":
            assert gate.wait(20)
        elif search.deadline_ms is not None:
            time.sleep(max(search.deadline - time.monotonic(), 0))
        return answer_of(search)

    searches.answering.answer = answer
    metrics = Metrics(searches)
    yield SimpleNamespace(desk=Desk(searches, metrics), gate=gate, searches=searches, metrics=metrics)
    gate.set()
    searches.close()


async def hung_search(stub):
    running = asyncio.ensure_future(stub.desk.search(SearchBody(query="hung")))
    async with asyncio.timeout(10):
        while not stub.searches.running:
            await asyncio.sleep(0.001)
    stub.searches._seconds.append(0.001)  # by what it has seen, the queue is short: the search is taken in
    return running


def test_who_waits_behind_a_search_that_hangs_is_told_at_the_deadline(stub):
    async def work():
        running = await hung_search(stub)
        async with asyncio.timeout(10):
            with pytest.raises(BusyError, match="in the queue"):
                await stub.desk.search(SearchBody(query="a", deadline_ms=300))
            stream = stub.desk.begin(SearchBody(query="a", deadline_ms=300), None)
            messages = [message async for message in stream.messages()]
        assert [type(message) for message in messages] == [BusyError] and not running.done()
        stub.gate.set()
        await running

    awaited(work())


def test_a_deadline_that_is_shorter_than_anything_is_no_reason_to_send_away(stub):
    (answer,) = awaited(stub.desk.search(SearchBody(query="a", deadline_ms=0.001)))
    assert answer.query.query_txt == "a"


def test_of_several_queries_one_that_has_begun_is_enough(stub):
    answers = awaited(stub.desk.search(SearchBody(query=["a", "b", "c"], deadline_ms=100)))
    assert [answer.query.query_txt for answer in answers] == ["a", "b", "c"]


def test_deadlines_are_counted_when_the_answer_has_been_sent(stub):
    def counted():
        lines = stub.metrics.text().decode().splitlines()
        return {
            line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith("tour_deadlines_total")
        }

    def task(seconds):
        return Search(
            query="a",
            report=print,
            hits=1,
            config=TourConfig(),
            arrived=time.monotonic() - 10,
            deadline_ms=1000 * (10 + seconds),
        )

    stub.desk.sent([task(60), task(60), task(-1)])
    stub.desk.sent([Search(query="a", report=print, hits=1, config=TourConfig())])
    assert counted() == {"yes": 2, "no": 1}
