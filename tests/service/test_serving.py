"""A running service, where labels take 50 ms a call and 8 ms each: deadlines, clients that go, signals; its key."""

import itertools
import json
import signal
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from in_memory_collection import wait_until
from running_server import running_server

from tour_pyserini import TourError
from tour_pyserini.core.method import StopReason
from tour_pyserini.serve import serve
from tour_pyserini.service import serving
from tour_pyserini.service.serving import KEY_VARIABLE, ServeRequest, digest
from tour_pyserini.stores.filters import Filter

BUDGET = 40
PATH = "/slower/tei/rerank"


@pytest.fixture(scope="module")
def slow(small, slow_flags):
    """A service that keeps nothing between searches."""
    limits = ("--no-cache", "--no-early-stopping", "--budget", BUDGET)
    with running_server(*slow_flags, *limits, cache=small.cache) as server:
        yield server


def test_a_deadline_gives_the_best_list_that_could_be_had(small, slow):
    query = small.queries["q4"]
    dense = slow.search(query, k=5, method="dense").json()
    whole = slow.search(query, k=5).json()
    for deadline in (1, 400):
        answer = slow.search(query, k=5, deadline_ms=deadline).json()
        assert answer["stop"] == StopReason.DEADLINE and answer["settings"]["deadline_ms"] == deadline
        assert answer["costs"]["labels"] < whole["costs"]["labels"] == BUDGET
        if not answer["costs"]["labels"]:
            assert [hit["docid"] for hit in answer["candidates"]] == [hit["docid"] for hit in dense["candidates"]]
    assert slow.search(query, k=5, deadline_ms=60_000).json()["candidates"] == whole["candidates"]


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


def judge(server):
    """Judge until the service is gone; what was confirmed, by docid, and the last docid, which may be kept or not."""
    confirmed = {}
    for number in itertools.count():
        body = {"query": "a topic", "docid": f"d{number % 60}", "relevance": number // 60 % 4}
        try:
            assert server.client.post("/judgements", json=body).status_code == 200
        except httpx.TransportError:
            return confirmed, body["docid"]
        confirmed[body["docid"]] = str(body["relevance"])


def test_a_signal_lets_what_runs_end_and_a_killed_service_loses_nothing(small, slow_flags, tmp_path):
    cache, judged, query = tmp_path / "scores.sqlite", tmp_path / "judged", small.queries["q9"]
    flags = (*slow_flags, "--cache", cache, "--judgements", judged, "--no-early-stopping", "--budget", "20")
    with running_server(*flags, cache=small.cache) as server, ThreadPoolExecutor(2) as clients:
        judging = clients.submit(judge, server)
        wait_until(lambda: judged.stat().st_size > 1000)
        asking = clients.submit(server.search, query, k=5)
        wait_until(lambda: kept(cache) >= 5)
        server.stop(signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            asking.result()
    before, (confirmed, last) = kept(cache), judging.result()
    assert before >= 5
    with running_server(*flags, cache=small.cache) as server, ThreadPoolExecutor(1) as clients:
        answer = clients.submit(server.search, query, k=5)
        wait_until(lambda: server.metric("tour_running") > 0)
        lines = [line.split() for line in server.client.get("/judgements").text.splitlines()]
        assert server.stop() == (0, "")
        costs = answer.result().json()["costs"]
    assert costs["labels"] == kept(cache) == 20 and costs["scored"] == 20 - before
    assert {docid: grade for _, _, docid, grade in lines if docid != last}.items() >= (
        {docid: grade for docid, grade in confirmed.items() if docid != last}.items()
    )


def kept(cache):
    if not cache.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM scores").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_a_port_in_use_is_told_before_anything_is_opened():
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(TourError, match="choose another --port"):
        serve(ServeRequest(port=other.getsockname()[1]))


def test_answers_are_sent_without_delay():
    """With the protocol's number, asyncio turns Nagle's algorithm off, which would keep the end of each answer."""
    with serving.listen(ServeRequest(port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_a_service_answers_to_its_own_address():
    assert "127.0.0.2" in ServeRequest(host="127.0.0.2").names
    assert {"127.0.0.1", "localhost", "::1"} < ServeRequest(host="127.0.0.3").names
    assert "127.0.0.2" not in ServeRequest().names and ServeRequest(host="0.0.0.0").names is None


@pytest.mark.parametrize(
    ("content", "key", "request_", "wanted"),
    [
        (None, "", {}, None),
        (None, "a long secret", {"host": "0.0.0.0"}, {"a long secret": None}),
        (None, "", {"host": "0.0.0.0", "no_key": True}, None),
        ("# tenants\nmany-tenants *\none-tenant {}\n", "", {}, {"many-tenants": None, "one-tenant": Filter.parse({})}),
        (None, "", {"host": "0.0.0.0"}, "lets other machines in"),
        (None, "short", {}, "8 characters"),
        (None, "", {"keys": "nowhere"}, "nowhere"),
        ("some-tenant\n", "", {}, "line 1 has no filter"),
        ("some-tenant {}\nsome-tenant {}\n", "", {}, "line 2"),
        ("short {}\n", "", {}, "8 characters"),
        ("# none\n", "", {}, "has no key"),
        ("some-tenant 7\n", "", {}, "condition"),
        ("some-tenant {}\n", "", {"no_key": True}, "contradict"),
    ],
)
def test_where_keys_come_from(tmp_path, monkeypatch, content, key, request_, wanted):
    monkeypatch.setenv(KEY_VARIABLE, key)
    if content is not None:
        (tmp_path / "keys").write_text(content)
        request_ = {**request_, "keys": tmp_path / "keys"}
    if isinstance(wanted, str):
        with pytest.raises(TourError, match=wanted) as error:
            ServeRequest(**request_).read_keys()
        assert "some-tenant" not in str(error.value)
    else:
        keys = {digest(one): passing for one, passing in wanted.items()} if wanted else None
        assert ServeRequest(**request_).read_keys() == keys
