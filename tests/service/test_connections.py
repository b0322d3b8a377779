"""Connections that send nothing, half of a request or a drop at a time: none of them ends the service."""

import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from running_server import running_server


@pytest.fixture(scope="module")
def few(small):
    """A service that may open 256 descriptors."""
    with running_server(*small.flags, cache=small.cache, descriptors=256) as server:
        yield server


def connect(server, stack, sent=b""):
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", httpx.URL(server.url).port), timeout=40))
    connection.sendall(sent)
    return connection


def is_closed(connection):
    try:
        return connection.recv(1000) == b""
    except ConnectionError:
        return True


def test_half_requests_do_not_keep_others_out(few):
    with ExitStack() as stack:
        half = [connect(few, stack, b"GET /health HT") for _ in range(300)]
        with httpx.Client(base_url=few.url, timeout=20, trust_env=False) as client:
            for _ in range(5):
                assert client.post("/search", json={"query": "a b", "k": 3}).status_code == 200
        assert is_closed(half[0])
    with httpx.Client(base_url=few.url, timeout=20, trust_env=False) as client:
        assert client.get("/ready").status_code == 200
    assert few.stop() == (0, "")


def test_drops_are_not_waited_for(server):
    """A request line, headers and a body, of which a byte comes now and then."""
    first = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    starts = {
        "line": b"G",
        "headers": first + b"X-Slow: ",
        "second request": first + b"\r\nGET /he",
        "body": b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{",
    }
    with ExitStack() as stack:
        dripping = {name: connect(server, stack, start) for name, start in starts.items()}
        for connection in dripping.values():
            connection.settimeout(0.01)
        start, closed, received = time.monotonic(), set(), dict.fromkeys(dripping, b"")
        while len(closed) < len(dripping):
            assert time.monotonic() - start < 60
            time.sleep(0.5)
            for name, connection in dripping.items():
                try:
                    connection.sendall(b"x")
                    part = connection.recv(1000)
                    received[name] += part
                except TimeoutError:
                    continue
                except ConnectionError:
                    part = b""
                if not part:
                    closed.add(name)
        assert b"408" in received["body"] and b"200 OK" in received["second request"]
        long = connect(server, stack, first + b"X: " + b"a" * 200_000)
        assert b"400" in long.recv(1000)
    assert server.search("a b").status_code == 200


# A service of another application, whose log cannot be written, and which takes its time to end.
SERVICE = """
import asyncio, os
from tour_pyserini.serve import serve
from tour_pyserini.service import app, collection, serving

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        print("ending", flush=True)
        await asyncio.sleep(60)
    if scope["path"] == "/fails":
        raise ValueError
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"30000000")]})
    for _ in range(30):
        await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})

collection.Collection, app.new_app = lambda request: None, lambda collection, key: application
serving.PATIENCE = 0.5
os.close(2)
serve(serving.ServeRequest(port=0, no_mcp=True), tell=lambda address: print(address, flush=True))
"""


@pytest.fixture(scope="module")
def other():
    with subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True) as process:
        process.url = process.stdout.readline().strip()
        yield process
        process.kill()


def received(connection, pause=0):
    """Bytes until there is nothing more for a while."""
    connection.settimeout(1)
    size = 0
    with suppress(TimeoutError, ConnectionError):
        while part := connection.recv(1 << 20):
            size += len(part)
            time.sleep(pause)
    return size


def test_an_answer_that_nobody_reads_is_not_kept_and_one_that_is_read_slowly_is_whole(other):
    asked = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack:
        slow, unread = (connect(other, stack, asked) for _ in range(2))
        whole = received(slow, pause=0.1)  # three seconds in all
        assert received(unread) < 30_000_000 < whole


def test_a_log_that_cannot_be_written_ends_nothing_and_a_second_signal_ends_it_all(other):
    with httpx.Client(base_url=other.url, timeout=20, trust_env=False) as client:
        assert [client.get("/fails").status_code for _ in range(3)] == [500] * 3
    other.terminate()
    assert other.stdout.readline() == "ending\n"
    other.terminate()
    assert other.wait(timeout=30) == 1
