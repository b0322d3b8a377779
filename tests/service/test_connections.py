"""Connections that send or read nothing, half of a request or a drop at a time: none of them ends the service."""

import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import httpx
import pytest

FIRST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LARGE = 30_000_000

# A service of another application, of little patience, whose log cannot be written, and which takes its time to end.
SERVICE = f"""
import asyncio, os
from tour_pyserini.serve import serve
from tour_pyserini.service import app, collection, serving

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        await send({{"type": "lifespan.startup.complete"}})
        assert (await receive())["type"] == "lifespan.shutdown"
        print("ending", flush=True)
        await asyncio.sleep(60)
    if scope["path"] == "/fails":
        raise ValueError
    parts = 30 if scope["path"] == "/large" else 0
    length = b"%d" % (parts * {LARGE} // 30)
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}})
    for _ in range(parts):
        await send({{"type": "http.response.body", "body": b"x" * ({LARGE} // 30), "more_body": True}})
    await send({{"type": "http.response.body", "body": b""}})

collection.Collection, app.new_app = lambda request: None, lambda collection, keys: application
serving.PATIENCE = 0.5
os.close(2)
serve(serving.ServeRequest(port=0), tell=lambda address: print(address, flush=True))
"""


@pytest.fixture(scope="module")
def other():
    with subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True) as process:
        process.url = process.stdout.readline().strip()
        yield process
        process.kill()


def connect(server, stack, sent):
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", httpx.URL(server.url).port), timeout=40))
    connection.sendall(sent)
    return connection


def received(connection, pause=0):
    """All that comes until there is nothing more for a second."""
    connection.settimeout(1)
    parts = []
    with suppress(TimeoutError, ConnectionError):
        while part := connection.recv(1 << 20):
            parts.append(part)
            time.sleep(pause)
    return b"".join(parts)


def test_half_requests_do_not_keep_others_out(server):
    """More of them than half of the descriptors that the service may open."""
    with ExitStack() as stack:
        half = [connect(server, stack, b"GET /health HT") for _ in range(300)]
        with httpx.Client(base_url=server.url, timeout=20, trust_env=False) as client:
            for _ in range(5):
                assert client.post("/search", json={"query": "a b", "k": 3}).status_code == 200
        assert received(half[0]) == b""
        assert b"400" in received(connect(server, stack, FIRST + b"X: " + b"a" * 200_000))
    assert server.client.get("/ready").status_code == 200


@pytest.mark.parametrize("start", [b"G", FIRST + b"X-Slow: ", FIRST + b"\r\nGET /he"])
def test_drops_are_not_waited_for(other, start):
    """A byte of a request line, of a header or of a second request comes now and then."""
    with ExitStack() as stack:
        dripping = connect(other, stack, start)
        end = time.monotonic() + 20
        with pytest.raises(ConnectionError):
            while time.monotonic() < end:
                dripping.sendall(b"x")
                time.sleep(0.1)


def test_an_answer_that_nobody_reads_is_not_kept_and_one_that_is_read_slowly_is_whole(other):
    with ExitStack() as stack:
        slow, unread = (connect(other, stack, FIRST.replace(b"health", b"large") + b"\r\n") for _ in range(2))
        whole = len(received(slow, pause=0.1))  # three seconds in all
        assert len(received(unread)) < LARGE < whole


def test_a_log_that_cannot_be_written_ends_nothing_and_a_second_signal_ends_it_all(other):
    with httpx.Client(base_url=other.url, timeout=20, trust_env=False) as client:
        assert [client.get("/fails").status_code for _ in range(3)] == [500] * 3
    other.terminate()
    assert other.stdout.readline() == "ending\n"
    other.terminate()
    assert other.wait(timeout=30) == 1
