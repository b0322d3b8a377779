"""A running service, where labels take 50 ms a call and 8 ms each: deadlines, queue, clients that go, signals."""

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from in_memory_collection import wait_until
from own_loop import awaited
from running_server import running_server

from tour_pyserini import TourError
from tour_pyserini.core.method import StopReason
from tour_pyserini.serve import serve, serve_parser
from tour_pyserini.service import serving
from tour_pyserini.service.serving import ServeRequest

BUDGET = 40
PATH = "/slower/tei/rerank"


@pytest.fixture(scope="module")
def slow(small, slow_flags):
    """A service with room for three searches at once and two that wait; nothing is kept between searches."""
    limits = ("--at-once", "3", "--queue", "2", "--no-cache", "--no-early-stopping", "--budget", BUDGET)
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


def test_a_signal_lets_what_runs_end_and_a_killed_service_loses_no_label(small, slow_flags, tmp_path):
    cache, query = tmp_path / "scores.sqlite", small.queries["q9"]
    flags = (*slow_flags, "--cache", cache, "--no-early-stopping", "--budget", "20")
    with running_server(*flags, cache=small.cache) as server, ThreadPoolExecutor(1) as clients:
        asking = clients.submit(server.search, query, k=5)
        wait_until(lambda: kept(cache) >= 5)
        server.stop(signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            asking.result()
    before = kept(cache)
    assert before >= 5
    with running_server(*flags, cache=small.cache) as server, ThreadPoolExecutor(1) as clients:
        answer = clients.submit(server.search, query, k=5)
        wait_until(lambda: server.metric("tour_reranker_calls_total") > 0)
        assert server.stop() == (0, "")
        costs = answer.result().json()["costs"]
    assert costs["labels"] == kept(cache) == 20 and costs["scored"] == 20 - before


def kept(cache):
    if not cache.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM scores").fetchone()[0]
    except sqlite3.Error:
        return 0


HANGING = """
import asyncio
from tour_pyserini.serve import serve
from tour_pyserini.service import app, collection
from tour_pyserini.service.serving import ServeRequest

async def hanging(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    await send({"type": "lifespan.startup.complete"})
    print("started", flush=True)
    assert (await receive())["type"] == "lifespan.shutdown"
    print("ending", flush=True)
    await asyncio.sleep(60)

collection.Collection, app.new_app = lambda request: None, lambda collection, key: hanging
serve(ServeRequest(port=0, no_mcp=True))
"""


def test_a_second_signal_ends_a_service_that_waits_for_its_end():
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in ("started", "ending"):
                assert process.stdout.readline().strip() == line
                process.terminate()
            assert process.wait(timeout=30) == 1
        finally:
            process.kill()


def test_a_port_in_use_is_told_before_anything_is_opened():
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(TourError, match="choose another --port"):
        serve(ServeRequest(port=other.getsockname()[1], no_mcp=True))


def test_answers_are_sent_without_delay():
    """Nagle's algorithm would keep the end of each answer until the client has confirmed its beginning."""

    async def nodelay():
        accepted = asyncio.get_running_loop().create_future()
        with serving.listen(ServeRequest(port=0)) as listener:
            server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listener)
            async with server:
                _, writer = await asyncio.open_connection(*listener.getsockname())
                ours = await accepted
                value = ours.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                for end in (ours, writer):
                    end.close()
                return value

    assert awaited(nodelay())


def test_the_flags_are_those_of_a_service():
    flags = serve_parser().format_help(everything=True)
    assert "--nprobe" in flags
    assert not [name for name in ("--shard", "--ray", "--batch-size", "--output") if name in flags]


@pytest.mark.parametrize(
    ("options", "word"), [({"port": 65_536}, "--port"), ({"no_key": True, "key_file": "key"}, "contradict")]
)
def test_flags_that_are_refused(options, word):
    with pytest.raises(TourError, match=word):
        ServeRequest(**options)
