"""Searches in flight at the same time, where labels take 50 ms a call: deadlines, queue, cancelling, ends."""

import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from running_server import running_server

BUDGET = 40
PATH = "/slow/tei/rerank"


@pytest.fixture(scope="module")
def slow(small, slow_flags):
    """A service with room for two searches at once and two that wait; nothing is kept between searches."""
    limits = ("--at-once", "2", "--queue", "2", "--no-cache", "--least-gain", "0", "--budget", BUDGET)
    with running_server(*slow_flags, *limits, cache=small.cache) as server:
        yield server


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_deadline_gives_the_best_list_that_could_be_had(small, slow):
    query = small.queries["q4"]
    dense = slow.search(query, k=5, method="dense").json()
    whole = slow.search(query, k=5).json()
    for deadline in (1, 400):
        answer = slow.search(query, k=5, deadline_ms=deadline).json()
        assert answer["stop"] == "deadline" and answer["settings"]["deadline_ms"] == deadline
        assert answer["costs"]["labels"] < whole["costs"]["labels"] == BUDGET
        if not answer["costs"]["labels"]:
            assert [hit["docid"] for hit in answer["candidates"]] == [hit["docid"] for hit in dense["candidates"]]
    assert slow.search(query, k=5, deadline_ms=60_000).json()["candidates"] == whole["candidates"]


def test_re_ranking_cut_off_by_a_deadline_keeps_the_retrievals_order_below(small, slow):
    body = {"k": 30, "method": "rerank", "settings": {"depth": 30}, "deadline_ms": 500}
    answer = slow.search(small.queries["q5"], **body).json()
    dense = slow.search(small.queries["q5"], k=30, method="dense").json()
    labels = [hit["label"] for hit in answer["candidates"]]
    labelled = sum(label is not None for label in labels)
    assert labelled == answer["costs"]["labels"] < 30
    assert None not in labels[:labelled]
    below = [hit["docid"] for hit in answer["candidates"][labelled:]]
    assert below == [hit["docid"] for hit in dense["candidates"] if hit["docid"] in below]


def test_who_finds_no_room_is_sent_away_and_told_when_to_return(small, slow):
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda query: slow.search(query, k=3), list(small.queries.values())[:8]))
    assert {answer.status_code for answer in answers} == {200, 429}
    assert sum(answer.status_code == 200 for answer in answers) >= 4
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["Retry-After"]) >= 1 and "come again" in answer.json()["detail"]
    wait_until(lambda: slow.metric("tour_running") == slow.metric("tour_waiting") == 0)
    assert slow.search(["a b"] * 5, k=3).status_code == 429  # all of them or none
    assert slow.search(small.queries["q0"], k=3).status_code == 200


def test_a_client_that_goes_away_stops_costing(small, slow, slow_reranker):
    wait_until(lambda: slow.metric("tour_running") == 0)
    for ask in (
        lambda client: client.post("/search", json={"query": "a b c", "k": 3}),
        lambda client: client.get("/search/stream", params={"query": "a b c"}),
    ):
        before = slow_reranker.counts()[PATH]
        client = httpx.Client(base_url=slow.url, timeout=0.3, trust_env=False)
        with client, pytest.raises(httpx.TimeoutException):
            ask(client)
        wait_until(lambda: slow.metric("tour_running") == 0)
        after = slow_reranker.counts()[PATH]
        time.sleep(0.3)
        assert slow_reranker.counts()[PATH] == after
        assert after - before < BUDGET // 5  # rounds of five labels


def test_labels_of_searches_at_the_same_time_share_calls(small, slow):
    def cost(run):
        before = slow.metric("tour_reranker_calls_total")
        run()
        return slow.metric("tour_reranker_calls_total") - before

    queries = [small.queries[qid] for qid in ("q6", "q7")]
    alone = cost(lambda: [slow.search(query, k=3) for query in queries])
    together = cost(lambda: slow.search(queries, k=3))
    assert together < alone


def test_a_signal_lets_what_runs_end_and_loses_no_label(small, slow_flags, tmp_path):
    cache = tmp_path / "scores.sqlite"
    flags = (*slow_flags, "--cache", cache, "--least-gain", "0", "--budget", "20")
    with running_server(*flags, cache=small.cache) as server:
        with ThreadPoolExecutor(1) as clients:
            answer = clients.submit(server.search, small.queries["q8"], k=5)
            wait_until(lambda: server.metric("tour_reranker_calls_total") > 0)
            code, errors = server.stop()
            assert (code, errors) == (0, "")
            assert answer.result().json()["costs"]["labels"] == 20
        assert kept(cache) == 20


def test_labels_survive_a_killed_service(small, slow_flags, tmp_path):
    cache = tmp_path / "scores.sqlite"
    flags = (*slow_flags, "--cache", cache, "--least-gain", "0", "--budget", "20")
    query = small.queries["q9"]
    with running_server(*flags, cache=small.cache) as server, ThreadPoolExecutor(1) as clients:
        asking = clients.submit(server.search, query, k=5)
        wait_until(lambda: kept(cache) >= 5)
        server.stop(signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            asking.result()
    before = kept(cache)
    with running_server(*flags, cache=small.cache) as server:
        costs = server.search(query, k=5).json()["costs"]
    assert costs["labels"] == 20 and costs["scored"] == 20 - before and before >= 5


def kept(cache):
    if not cache.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM scores").fetchone()[0]
    except sqlite3.Error:
        return 0
