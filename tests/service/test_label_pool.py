"""Labels of several searches in one call: who is served first, deadlines, cancelling, failures."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tour_pyserini.service.label_cost import LabelCost
from tour_pyserini.service.label_pool import CancelledError, LabelPool

from tour_pyserini.service import label_pool


class GatedReranker:
    """Scores the length of a passage; a call waits until the gate is open. `calls` has the passages of each call."""

    def __init__(self):
        self.calls, self.gate, self.entered = [], threading.Event(), threading.Event()

    def predict(self, pairs):
        self.calls.append([passage for _, passage in pairs])
        self.entered.set()
        assert self.gate.wait(10)
        if any(passage == "bad" for _, passage in pairs):
            raise ValueError("bad passage")
        return np.array([float(len(passage)) for _, passage in pairs])


@pytest.fixture
def reranker():
    return GatedReranker()


@pytest.fixture
def pool(reranker):
    pool = LabelPool(reranker, LabelCost())
    yield pool
    reranker.gate.set()
    pool.close()


def buying(pool, clients, *passages, **options):
    return clients.submit(pool.buy, [("q", passage) for passage in passages], **options)


def wait_for(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_waits_goes_into_one_call_in_the_order_in_which_it_is_due(pool, reranker):
    with ThreadPoolExecutor(4) as clients:
        first = buying(pool, clients, "a")
        reranker.entered.wait(10)
        later = buying(pool, clients, "bb", "ccc")
        wait_for(lambda: pool.waiting == 2)
        urgent = buying(pool, clients, "dddd", deadline=time.monotonic() + 0.9)
        wait_for(lambda: pool.waiting == 3)
        reranker.gate.set()
        assert [done.result()[0].tolist() for done in (first, later, urgent)] == [[1.0], [2.0, 3.0], [4.0]]
    assert reranker.calls == [["a"], ["dddd", "bb", "ccc"]]


def test_after_the_deadline_a_search_has_the_labels_that_were_in_time(pool, reranker):
    with ThreadPoolExecutor(1) as clients:
        start = time.monotonic()
        scores, asked = buying(pool, clients, "a", "bb", deadline=start + 0.05).result()
        assert np.isnan(scores).all() and asked == 2 and time.monotonic() - start >= 0.05


def test_pairs_that_cannot_be_scored_in_time_are_not_begun(pool, reranker):
    reranker.gate.set()
    pool.cost.learn([("q", "x" * 99)] * 4, 4.0)  # a second each
    scores, _ = pool.buy([("q", "x" * 99)] * 3, deadline=time.monotonic() + 0.5)
    assert np.isnan(scores).all() and not reranker.calls
    scores, _ = pool.buy([("q", "x" * 99)] * 3, deadline=time.monotonic() + 2.5)
    assert np.isfinite(scores[0]) and reranker.calls[0] == ["x" * 99]


def test_a_cancelled_search_stops_costing(pool, reranker):
    cancelled = threading.Event()
    with ThreadPoolExecutor(2) as clients:
        first = buying(pool, clients, "a")
        reranker.entered.wait(10)
        second = buying(pool, clients, "bb", cancelled=cancelled)
        wait_for(lambda: pool.waiting == 1)
        cancelled.set()
        with pytest.raises(CancelledError):
            second.result()
        reranker.gate.set()
        assert first.result()[0].tolist() == [1.0]
    pool.close()
    assert reranker.calls == [["a"]]


def test_a_failure_reaches_those_of_its_call_only(pool, reranker):
    with ThreadPoolExecutor(2) as clients:
        failing = buying(pool, clients, "bad")
        reranker.entered.wait(10)
        other = buying(pool, clients, "aa")
        wait_for(lambda: pool.waiting == 1)
        reranker.gate.set()
        with pytest.raises(ValueError, match="bad passage"):
            failing.result()
        assert other.result()[0].tolist() == [2.0]


def test_a_passage_that_fails_does_not_harm_the_others_of_its_call(pool, reranker):
    with ThreadPoolExecutor(4) as clients:
        first = buying(pool, clients, "a")
        reranker.entered.wait(10)
        good, failing, other = (buying(pool, clients, *texts) for texts in (("bb", "ccc"), ("x", "bad"), ("dddd",)))
        wait_for(lambda: pool.waiting == 5)
        reranker.gate.set()
        with pytest.raises(ValueError, match="bad passage"):
            failing.result()
        assert [done.result()[0].tolist() for done in (first, good, other)] == [[1.0], [2.0, 3.0], [4.0]]
    assert sorted(reranker.calls[1]) == ["bad", "bb", "ccc", "dddd", "x"]
    assert sorted(reranker.calls[2:]) == [["bb", "ccc"], ["dddd"], ["x", "bad"]]


def test_a_service_that_is_down_is_not_asked_for_each_search(pool, reranker, monkeypatch):
    monkeypatch.setattr(label_pool, "DOWN_SECONDS", 0.0)
    with ThreadPoolExecutor(3) as clients:
        first = buying(pool, clients, "a")
        reranker.entered.wait(10)
        failing = [buying(pool, clients, text) for text in ("bad", "bb")]
        wait_for(lambda: pool.waiting == 2)
        reranker.gate.set()
        for one in failing:
            with pytest.raises(ValueError, match="bad passage"):
                one.result()
        assert first.result()[0].tolist() == [1.0]
    assert len(reranker.calls) == 2


def test_closing_finishes_what_waits(pool, reranker):
    with ThreadPoolExecutor(3) as clients:
        running, waiting = buying(pool, clients, "a"), None
        reranker.entered.wait(10)
        waiting = buying(pool, clients, "bb")
        wait_for(lambda: pool.waiting == 1)
        closing = clients.submit(pool.close)
        reranker.gate.set()
        closing.result()
        assert running.result()[0].tolist() == [1.0] and waiting.result()[0].tolist() == [2.0]
    with pytest.raises(CancelledError):
        pool.buy([("q", "late")])


def test_the_forecast_is_the_plane_through_what_was_measured():
    cost = LabelCost(max_length=1000)
    for count, length in ((1, 100), (3, 200), (8, 400), (2, 300), (5, 50)):  # 4 ms, 2 ms a pair, 1 ms for 25 tokens
        cost.learn([("", "x" * 4 * length)] * count, 0.004 + count * (0.002 + length / 25_000))
    assert cost.seconds(5, 500) == pytest.approx(0.004 + 5 * 0.002 + 500 / 25_000)
    assert cost.per_call == pytest.approx(0.004) and cost.margin == pytest.approx(1.15)
    assert cost.tokens(("", "x" * 80_000)) == 1000


def test_what_a_call_costs_anyway_does_not_make_calls_small(pool, reranker):
    reranker.gate.set()
    for count in (1, 4, 8):  # a network: half a second for any call
        pool.cost.learn([("q", "x" * 99)] * count, 0.5 + 0.001 * count)
    pool.buy([("q", "x" * 99)] * 20)
    assert [len(call) for call in reranker.calls] == [20]


def test_long_calls_are_split(pool, reranker):
    reranker.gate.set()
    for count in (1, 4, 8):
        pool.cost.learn([("q", "x" * 99)] * count, 0.015 * count)
    pool.buy([("q", "x" * 99)] * 4)
    assert len(reranker.calls[0]) == 3


def test_the_margin_follows_the_errors():
    cost = LabelCost()
    for number in range(40):
        cost.learn([("", "x" * 400)], 0.2 if number % 4 == 0 else 0.1)
    assert cost.seconds(1, 100) * cost.margin >= 0.2
