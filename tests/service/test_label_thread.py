"""Labels of several searches in one call: who is served first, deadlines, failures."""

import math
import threading
import time

import numpy as np
import pytest
from in_memory_collection import GatedReranker, wait_until

from tour_pyserini.searchers.label_time import LabelCost
from tour_pyserini.service import label_thread
from tour_pyserini.service.label_thread import LabelThread


@pytest.fixture
def reranker():
    return GatedReranker()


@pytest.fixture
def labels(reranker):
    labels = LabelThread(reranker, LabelCost())
    yield labels
    reranker.gate.set()
    labels.close()


class Asked:
    """Labels that were asked for; `ends` counts how often that ended."""

    def __init__(self, labels, *passages, deadline=math.inf):
        self.ends, self._ended = 0, threading.Event()
        self.pending = labels.ask([("q", passage) for passage in passages], deadline, self._end)

    def _end(self):
        self.ends += 1
        self._ended.set()

    def result(self):
        assert self._ended.wait(30)
        return self.pending.take().tolist()


@pytest.fixture
def first(labels, reranker):
    """A call that is under way: what is asked for meanwhile waits for the next one."""
    first = Asked(labels, "a")
    assert reranker.entered.wait(30)
    return first


def test_what_waits_goes_into_one_call_in_the_order_in_which_it_is_due(labels, reranker, first):
    labels.cost.learn([("q", "x")] * 4, 0.001)
    later, urgent = Asked(labels, "bb", "ccc"), Asked(labels, "dddd", deadline=time.monotonic() + 0.9)
    assert labels.waiting == 3
    reranker.gate.set()
    assert [asked.result() for asked in (first, later, urgent)] == [[1.0], [2.0, 3.0], [4.0]]
    assert reranker.calls == [["a"], ["dddd", "bb", "ccc"]] and (labels.calls, labels.labels) == (2, 4)


def test_pairs_that_cannot_be_scored_in_time_are_not_begun(labels, reranker):
    reranker.gate.set()
    labels.cost.learn([("q", "x" * 99)] * 4, 4.0)  # a second each
    assert np.isnan(Asked(labels, *["x" * 99] * 3, deadline=time.monotonic() + 0.5).result()).all()
    assert not reranker.calls
    labelled = Asked(labels, *["x" * 99] * 3, deadline=time.monotonic() + 2.5).result()
    assert labelled[0] == 99 and reranker.calls[0] == ["x" * 99]


def test_a_request_that_was_ended_stops_costing_and_ends_once(labels, reranker, first):
    second = Asked(labels, "bb")
    second.pending.request.end()
    assert np.isnan(second.result()).all() and labels.waiting == 0
    reranker.gate.set()
    assert first.result() == [1.0]
    labels.close()
    assert reranker.calls == [["a"]] and second.ends == first.ends == 1


def test_labels_that_the_score_cache_has_are_not_asked_for(labels, reranker):
    reranker.lookup = lambda pairs: np.array([np.nan if text == "new" else 7.0 for _, text in pairs])
    reranker.gate.set()
    assert Asked(labels, "old", "old").result() == [7.0, 7.0] and not reranker.calls
    assert Asked(labels, "old", "new", "old").result() == [7.0, 3.0, 7.0] and reranker.calls == [["new"]]


def test_a_passage_that_fails_does_not_harm_the_others_of_its_call(labels, reranker, first):
    good, failing, other = (Asked(labels, *texts) for texts in (("bb", "ccc"), ("x", "bad"), ("dddd",)))
    reranker.gate.set()
    with pytest.raises(ValueError, match="bad passage"):
        failing.result()
    assert [asked.result() for asked in (first, good, other)] == [[1.0], [2.0, 3.0], [4.0]]
    assert sorted(reranker.calls[1]) == ["bad", "bb", "ccc", "dddd", "x"]
    assert sorted(reranker.calls[2:]) == [["bb", "ccc"], ["dddd"], ["x", "bad"]]
    assert Asked(labels, "eeeee").result() == [5.0]  # the thread goes on


def test_a_service_that_is_down_is_not_asked_for_each_search(labels, reranker, first, monkeypatch):
    monkeypatch.setattr(label_thread, "DOWN_SECONDS", 0.0)
    failing = [Asked(labels, text) for text in ("bad", "bb")]
    reranker.gate.set()
    for asked in failing:
        with pytest.raises(ValueError, match="bad passage"):
            asked.result()
    assert first.result() == [1.0] and len(reranker.calls) == 2


def test_closing_finishes_what_waits(labels, reranker, first):
    waiting = Asked(labels, "bb")
    closing = threading.Thread(target=labels.close)
    closing.start()
    reranker.gate.set()
    closing.join(30)
    assert not closing.is_alive() and first.result() == [1.0] and waiting.result() == [2.0]


@pytest.mark.parametrize(
    ("seconds", "asked", "first_call"),
    [
        (lambda count: 0.5 + 0.001 * count, 20, 20),  # a network: what a call costs anyway does not make calls small
        (lambda count: 0.015 * count, 4, 3),  # long calls are split
    ],
)
def test_the_length_of_calls(labels, reranker, seconds, asked, first_call):
    reranker.gate.set()
    for count in (1, 4, 8):
        labels.cost.learn([("q", "x" * 99)] * count, seconds(count))
    Asked(labels, *["x" * 99] * asked).result()
    wait_until(lambda: labels.labels == asked)
    assert len(reranker.calls[0]) == first_call
