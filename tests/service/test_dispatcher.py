"""Between requests and searches: short deadlines, what is counted, settings."""

import time
from types import SimpleNamespace

import pytest
from in_memory_collection import InMemoryCollection
from own_loop import awaited

from tour_pyserini import TourConfig
from tour_pyserini.core.settings import Calibration
from tour_pyserini.errors import RequestError
from tour_pyserini.service.dispatcher import Dispatcher
from tour_pyserini.service.jobs import SearchJob
from tour_pyserini.service.messages import SearchBody


@pytest.fixture
def memory():
    """A dispatcher with one search at a time; labels wait until the gate is open."""
    collection = InMemoryCollection(at_once=1, queue=8, config=TourConfig("hard", depth=5, iterations=2))
    dispatcher = Dispatcher(collection)
    yield SimpleNamespace(dispatcher=dispatcher, loop=dispatcher.searches, gate=collection.reranker.gate)
    collection.reranker.gate.set()
    dispatcher.searches.close()


def counted(memory, name):
    lines = memory.dispatcher.figures().decode().splitlines()
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith(name + "{")}


def test_with_a_short_deadline_there_are_lists_without_labels(memory):
    answer = awaited(memory.dispatcher.search(SearchBody(query="a", deadline_ms=0.001), None))
    assert answer.query == "a" and answer.costs.labels == 0
    assert counted(memory, "tour_searches_total") == {"the deadline came": 1}


def test_deadlines_are_counted_when_the_answer_has_been_sent(memory):
    def job(seconds):
        came, patience = time.monotonic() - 10, 1000 * (10 + seconds)
        return SearchJob(query="a", hits=1, config=TourConfig(), arrived=came, deadline_ms=patience)

    for one in (job(60), job(60), job(-1), SearchJob(query="a", hits=1, config=TourConfig())):
        awaited(memory.dispatcher.answer_sent(one))
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
def test_settings_of_a_request_stand_over_those_of_the_service(memory, body, wanted):
    assert memory.dispatcher.new_job(SearchBody(query="a", **body), None, None).config == wanted


def test_a_weight_of_signals_that_are_not_there_is_refused(memory):
    with pytest.raises(RequestError, match="changes nothing"):
        memory.dispatcher.new_job(SearchBody(query="a", settings={"signal_weight": 0.9}), None, None)


CALIBRATION = Calibration(intercept=-3.0, label=0.1)  # labels are lengths of passages, 1 to 40


def test_probabilities_are_told_and_cut_the_list_and_an_empty_one_has_a_reason():
    collection = InMemoryCollection(config=TourConfig(depth=5, calibration=CALIBRATION), min_relevance=0.4)
    dispatcher, body = Dispatcher(collection), {"query": "a", "rounds": True}
    collection.reranker.gate.set()

    def search(**more):
        answer = awaited(dispatcher.search(SearchBody(**body, **more), None))
        return answer, answer.model_dump()

    whole, _ = search(min_relevance=0.0)
    cut, told = search()
    likely = [hit for hit in whole.candidates if hit.relevance >= 0.4]
    assert [hit.docid for hit in cut.candidates] == [hit.docid for hit in likely] and 0 < len(likely) < 10
    assert [hit.docid for hit in cut.rounds[-1].candidates] == [hit.docid for hit in likely]
    assert "nothing" not in told and "relevance" not in told["rounds"][0]["candidates"][0]
    best = max(hit.relevance for hit in whole.candidates)
    empty, _ = search(min_relevance=1.0)
    assert empty.candidates == [] and f"{best:.2f}" in empty.nothing
    with pytest.raises(RequestError, match="tune"):
        search(method="dense")
    assert all("relevance" not in hit for hit in search(method="dense", min_relevance=0.0)[1]["candidates"])
    dispatcher.searches.close()
