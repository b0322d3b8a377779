"""Connections that send nothing, half of a request or a drop at a time: none of them ends the service."""

import socket
import subprocess
import sys
import time
from contextlib import ExitStack

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


# A service whose application fails each request, with a log that cannot be written, and takes its time to end.
FAILING = """
import asyncio, os, sys
from tour_pyserini.serve import serve
from tour_pyserini.service import app, collection
from tour_pyserini.service.serving import ServeRequest

async def failing(scope, receive, send):
    if scope["type"] != "lifespan":
        raise ValueError
    assert (await receive())["type"] == "lifespan.startup"
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    print("ending", flush=True)
    await asyncio.sleep(60)

collection.Collection, app.new_app = lambda request: None, lambda collection, key: failing
os.close(2)
serve(ServeRequest(port=0, no_mcp=True), tell=lambda address: print(address, flush=True))
"""


def test_a_log_that_cannot_be_written_ends_nothing_and_a_second_signal_ends_it_all():
    with subprocess.Popen([sys.executable, "-c", FAILING], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
                assert [client.get("/").status_code for _ in range(3)] == [500] * 3
            process.terminate()
            assert process.stdout.readline() == "ending\n"
            process.terminate()
            assert process.wait(timeout=30) == 1
        finally:
            process.kill()
