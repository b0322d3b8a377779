"""Searches in flight at the same time, where labels take 50 ms a call and 8 ms each: deadlines, queue, cancelling."""

import json
import signal
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from running_server import running_server

BUDGET = 40
PATH = "/slower/tei/rerank"


@pytest.fixture(scope="module")
def slow(small, slow_flags):
    """A service with room for three searches at once and two that wait; nothing is kept between searches."""
    limits = ("--at-once", "3", "--queue", "2", "--no-cache", "--least-gain", "0", "--budget", BUDGET)
    with running_server(*slow_flags, *limits, cache=small.cache) as server:
        yield server


def wait_until(condition):
    end = time.monotonic() + 60
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
    body = {"k": 60, "method": "rerank", "settings": {"depth": 60}, "deadline_ms": 500}  # 60 labels take 530 ms
    dense = slow.search(small.queries["q5"], k=60, method="dense").json()

    def some_are_labelled():
        answer = slow.search(small.queries["q5"], **body).json()
        labels = [hit["label"] for hit in answer["candidates"]]
        labelled = sum(label is not None for label in labels)
        assert labelled == answer["costs"]["labels"] < 60 == len(labels)
        assert None not in labels[:labelled]
        below = [hit["docid"] for hit in answer["candidates"][labelled:]]
        assert below == [hit["docid"] for hit in dense["candidates"] if hit["docid"] in below]
        return labelled > 0

    wait_until(some_are_labelled)  # a busy machine may have no time for one


def test_who_finds_no_room_is_sent_away_and_told_when_to_return(small, slow):
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda query: slow.search(query, k=3), list(small.queries.values())[:8]))
    assert {answer.status_code for answer in answers} == {200, 429}
    assert sum(answer.status_code == 200 for answer in answers) >= 5
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["Retry-After"]) >= 1 and "come again" in answer.json()["detail"]
    wait_until(lambda: slow.metric("tour_running") == slow.metric("tour_waiting") == 0)
    never = slow.search(["a b"] * 6, k=3)  # there are three searches at once and two that wait
    assert never.status_code == 422 and "1 to 5 queries, not 6" in never.json()["detail"]
    assert slow.search(small.queries["q0"], k=3).status_code == 200


def test_a_client_that_goes_away_stops_costing(small, slow, slow_reranker):
    def calls():
        return slow_reranker.counts()[PATH]

    wait_until(lambda: slow.metric("tour_running") == 0)
    body = json.dumps({"query": "a b c", "k": 3, "settings": {"depth": 1}})
    rest = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    for asked in (
        f"POST /search HTTP/1.1\r\n{rest}",
        "GET /search/stream?query=a+b+c&setting=depth%3D1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ):
        before = calls()
        with socket.create_connection(("127.0.0.1", httpx.URL(slow.url).port)) as connection:
            connection.sendall(asked.encode())
            wait_until(lambda before=before: calls() > before)
        wait_until(lambda: slow.metric("tour_running") == 0)
        time.sleep(0.3)  # a call may have been on its way
        after = calls()
        time.sleep(0.3)
        assert calls() == after < before + BUDGET  # rounds of one label


def test_labels_of_searches_at_the_same_time_share_calls(small, slow_flags):
    def cost(run):
        before = server.metric("tour_reranker_calls_total")
        run()
        return server.metric("tour_reranker_calls_total") - before

    queries = [small.queries[qid] for qid in ("q6", "q7", "q8")]  # two of them wait while the third is served
    body = {"k": 3, "budget": 10, "settings": {"depth": 1}}
    # With four threads a call takes four labels, if so many wait, whatever they are expected to cost.
    flags = (*slow_flags, "--reranker-threads", "4", "--at-once", "3", "--no-cache", "--least-gain", "0")
    with running_server(*flags, cache=small.cache) as server:
        alone = cost(lambda: [server.search(query, **body) for query in queries])
        together = cost(lambda: server.search(queries, **body))
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
