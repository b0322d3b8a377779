"""The queue and the thread of searches: what runs together, what fails, what is cancelled, and the end."""

import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from in_memory_collection import InMemoryCollection, wait_until

from tour_pyserini import TourConfig, method
from tour_pyserini.core.method import Outcome, Search, StopReason
from tour_pyserini.core.settings import MethodSettings
from tour_pyserini.errors import RequestError
from tour_pyserini.searchers.label_time import LabelCost
from tour_pyserini.service.jobs import RerankJob, SearchJob
from tour_pyserini.service.label_thread import LabelThread
from tour_pyserini.service.messages import Answer, Round
from tour_pyserini.service.search_loop import RESERVED, BusyError, FailedError, LatencyReserve, SearchLoop


@pytest.fixture
def memory():
    """A loop of three searches at once and two that wait; labels wait until the gate is open."""
    collection = InMemoryCollection()
    labels = LabelThread(collection.reranker, LabelCost())
    loop = SearchLoop(collection, labels, at_once=3, queue=2)
    yield SimpleNamespace(collection=collection, loop=loop, gate=collection.reranker.gate, labels=labels)
    collection.reranker.gate.set()
    loop.close()
    labels.close()


class Asked:
    """A job and what it was told; `result` is the last message."""

    def __init__(self, query="a", *, passages=None, config=None, **options):
        self.messages, self._ended = [], threading.Event()
        kind = {"passages": passages} if passages else {"hits": 5, "config": config or TourConfig(depth=5)}
        self.job = (RerankJob if passages else SearchJob)(query=query, report=self._report, **kind, **options)

    def _report(self, message):
        self.messages.append(message)
        if not isinstance(message, Round):
            self._ended.set()

    def result(self):
        assert self._ended.wait(30)
        return self.messages[-1]


def submit(memory, *asked):
    memory.loop.submit([one.job for one in asked])
    return asked


def labelling(memory, *asked):
    """Submit jobs and wait until all of them wait for labels."""
    submit(memory, *asked)
    wait_until(lambda: all(one.job.pending for one in asked))
    return asked


def hits_of(answer):
    return [(hit.docid, hit.score) for hit in answer.candidates]


def test_searches_with_several_settings_and_re_ranking_go_on_together(memory):
    configs = [TourConfig(depth=5), TourConfig("hard", depth=4), TourConfig("dense"), TourConfig("rerank", depth=6)]
    asked = [Asked("a" * number, config=config) for number, config in enumerate(configs, start=1)]
    scored = Asked("q", passages=["aa", "b", "cccc"])
    submit(memory, asked[0], asked[1], scored)
    submit(memory, asked[2], asked[3])
    memory.gate.set()
    for number, (one, config) in enumerate(zip(asked, configs, strict=True), start=1):
        wanted = memory.collection.searcher(config).search("a" * number, k=5)
        assert hits_of(one.result()) == [(hit.docid, pytest.approx(hit.score)) for hit in wanted]
        assert one.result().costs.labels == one.result().costs.scored <= config.most_labels
    assert scored.result() == [2.0, 1.0, 4.0]
    assert memory.loop.running == memory.loop.waiting == 0


def test_every_list_is_told_or_kept(memory):
    memory.gate.set()
    streamed, kept = submit(memory, Asked(streamed=True), Asked(rounds=True))
    *rounds, answer = streamed.result() and streamed.messages
    assert [type(one) for one in rounds] == [Round] * len(rounds) and isinstance(answer, Answer)
    assert [one.number for one in rounds] == list(range(len(rounds))) and answer.rounds is None
    assert [one.stop for one in rounds] == [None] * (len(rounds) - 1) + [answer.stop]
    assert [hits_of(one) for one in kept.result().rounds] == [hits_of(one) for one in rounds]
    assert len(kept.messages) == 1


@dataclass(frozen=True, kw_only=True)
class NoSettings(MethodSettings):
    most_labels = 0


@method(NoSettings)
def refusing(query, settings):
    """A method that fails for some queries, after its search."""
    found = yield Search(query.vector, query.hits)
    if query.text.startswith("wrong"):
        raise RequestError("this query is wrong")
    if query.text.startswith("broken"):
        raise ZeroDivisionError
    return Outcome(query.vector, found, StopReason.ROUNDS)


def test_a_search_that_fails_fails_no_other(memory, caplog):
    """Its query cannot be encoded, its method fails, or the re-ranker fails with it."""
    config = TourConfig(refusing)
    wrong, fine, broken = submit(memory, *(Asked(query, config=config) for query in ("wrong", "fine", "broken")))
    assert str(wrong.result()) == "this query is wrong" and isinstance(fine.result(), Answer)
    assert isinstance(broken.result(), FailedError) and "ZeroDivisionError" in caplog.text
    memory.gate.set()
    unknown, bad, fine = submit(memory, Asked("unknown"), Asked("bad"), Asked("aa"))
    assert isinstance(unknown.result(), FailedError) and isinstance(bad.result(), FailedError)
    assert isinstance(fine.result(), Answer) and "ValueError: bad passage" in caplog.text
    assert [len(one.messages) for one in (unknown, bad, fine)] == [1, 1, 1]
    wait_until(lambda: memory.loop.running == 0)
    assert isinstance(submit(memory, Asked())[0].result(), Answer)  # the threads go on


def test_when_the_re_ranker_fails_all_searches_end(memory):
    memory.gate.set()
    asked = submit(memory, Asked("bad"), Asked("bad one"), Asked("bad", passages=["a"]))
    assert [type(one.result()) for one in asked] == [FailedError] * 3
    assert len(memory.collection.reranker.calls) <= 6  # at most once together, and once each


def test_at_the_deadline_a_search_ends_with_the_labels_it_has(memory):
    (late,) = submit(memory, Asked(deadline_ms=50))
    answer = late.result()
    assert answer.stop == StopReason.DEADLINE and answer.costs.labels == 0
    assert time.monotonic() >= late.job.deadline
    dense = memory.collection.searcher(TourConfig("dense")).search("a", k=5)
    assert [hit.docid for hit in answer.candidates] == [hit.docid for hit in dense]


def test_who_finds_no_room_is_sent_away(memory):
    labelling(memory, *(Asked() for _ in range(3)))
    with pytest.raises(BusyError, match="deadline would pass"):
        submit(memory, Asked(deadline_ms=1))
    with pytest.raises(BusyError, match="waiting already"):
        submit(memory, *(Asked() for _ in range(3)))  # all or none
    assert memory.loop.waiting == 0 and not memory.loop.is_full
    submit(memory, Asked(), Asked())
    assert memory.loop.is_full
    with pytest.raises(BusyError, match="2 searches are waiting") as busy:
        submit(memory, Asked())
    assert busy.value.retry_after >= 1


def test_who_is_due_first_begins_first(memory):
    begun = labelling(memory, *(Asked() for _ in range(3)))
    patient, urgent = submit(memory, Asked("aa"), Asked("aaa", deadline_ms=900))
    memory.loop.cancel([begun[0].job])
    wait_until(lambda: urgent.job.started)
    assert not patient.job.started
    memory.gate.set()
    assert isinstance(patient.result(), Answer) and isinstance(urgent.result(), Answer)


def test_who_goes_away_makes_room_and_is_told_nothing(memory):
    running = labelling(memory, *(Asked() for _ in range(3)))
    waiting = submit(memory, Asked(), Asked())
    memory.loop.cancel([waiting[0].job])
    assert memory.loop.waiting == 1
    memory.loop.cancel([one.job for one in (*running, *waiting)])
    wait_until(lambda: memory.loop.running == memory.loop.waiting == 0)
    calls = len(memory.collection.reranker.calls)
    memory.gate.set()
    assert isinstance(submit(memory, Asked("aa"))[0].result(), Answer)
    assert not any(one.messages for one in (*running, *waiting)) and calls <= 1


def test_closing_finishes_what_runs_and_what_waits(memory):
    asked = [*labelling(memory, *(Asked() for _ in range(3))), *submit(memory, Asked("aa"), Asked("b", passages=["c"]))]
    closing = threading.Thread(target=memory.loop.close)
    closing.start()
    wait_until(lambda: memory.loop.is_full)
    with pytest.raises(BusyError, match="shutting down"):
        submit(memory, Asked())
    assert closing.is_alive()
    memory.gate.set()
    closing.join(30)
    assert not closing.is_alive() and [isinstance(one.result(), FailedError) for one in asked] == [False] * 5


def test_many_searches_that_come_and_go_all_end(memory):
    """Deadlines, failures and clients that go away, at the same time: nothing is lost and nothing is left."""
    memory.gate.set()
    asked = []
    for number in range(60):
        options = {"deadline_ms": 30} if number % 3 == 0 else {}
        one = Asked("bad" if number % 7 == 0 else "a" * (number % 5 + 1), streamed=number % 4 == 0, **options)
        wait_until(lambda: not memory.loop.is_full)
        try:
            submit(memory, one)
        except BusyError:
            continue
        asked.append(one)
        if number % 5 == 0:
            memory.loop.cancel([one.job])
    kept = [one for one in asked if not one.job.cancelled.is_set()]
    assert len(kept) > 30 and all(one.result() for one in kept)
    wait_until(lambda: memory.loop.running == memory.loop.waiting == memory.labels.waiting == 0)
    assert all(sum(not isinstance(message, Round) for message in one.messages) == 1 for one in kept)


def test_the_slowest_of_the_recent_searches_of_a_kind_had_enough_time():
    def job(name="tour", hits=10):
        return SearchJob(query="q", report=print, hits=hits, config=TourConfig(name))

    reserve = LatencyReserve(0.5)
    assert reserve.seconds(job()) == 0.5 and reserve.seconds(RerankJob(query="q", report=print, passages=["a"])) == 0
    for _ in range(RESERVED):
        reserve.learn(job(), 0.02)
    assert reserve.seconds(job()) == reserve.seconds(job(hits=15)) == 0.02  # about as long a list
    assert reserve.seconds(job(hits=1000)) == reserve.seconds(job("rerank")) == 0.5
    reserve.learn(job(), 0.1)
    assert reserve.seconds(job()) == 0.1
