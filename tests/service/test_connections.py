"""Connections that send nothing, half of a request or a drop at a time: none of them ends the service."""

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import httpx
import pytest
from in_memory_collection import wait_until
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
    starts = {
        "line": b"G",
        "headers": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        "second request": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /he",
        "body": b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{",
    }
    with ExitStack() as stack:
        dripping = {name: connect(server, stack, start) for name, start in starts.items()}
        for connection in dripping.values():
            connection.settimeout(0.01)
        start, closed, received = time.monotonic(), {}, dict.fromkeys(dripping, b"")
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
                    closed[name] = time.monotonic() - start
        assert b"408" in received["body"] and b"200 OK" in received["second request"]
    assert server.search("a b").status_code == 200


def test_long_headers_are_refused(server):
    with ExitStack() as stack:
        connection = connect(server, stack, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 200_000)
        assert b"400" in connection.recv(1000)


UNWRITABLE = """
import json, logging, os, sys
from tour_pyserini.serve import serve
from tour_pyserini.service import app, collection
from tour_pyserini.service.serving import ServeRequest

async def failing(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    raise ValueError

collection.Collection, app.new_app = lambda request: None, lambda collection, key: failing
os.close(2)
serve(ServeRequest(port=0, no_mcp=True), tell=lambda address: print(address, flush=True))
"""


def test_a_log_that_cannot_be_written_is_no_reason_to_fail():
    with subprocess.Popen([sys.executable, "-c", UNWRITABLE], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
                assert [client.get("/").status_code for _ in range(3)] == [500] * 3
            process.terminate()
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_the_description_of_the_routes_is_true(server):
    api = server.client.get("/openapi.json").json()
    about = server.client.get("/about").json()
    properties = api["components"]["schemas"]["SearchBody"]["properties"]
    assert properties["method"]["anyOf"][0]["enum"] == about["methods"]
    assert "default" in properties["preset"]["anyOf"][0]["enum"]
    asked = {one["name"]: one["schema"] for one in api["paths"]["/search/stream"]["get"]["parameters"]}
    assert asked["query"]["minLength"] == 1 and asked["method"]["anyOf"][0]["enum"] == about["methods"]
    texts = json.dumps(properties["query"])
    assert texts.count('"minLength": 1') == 2 and texts.count('"maxLength": 2000') == 2
    other = {"get": "post", "post": "get"}
    for path, methods in api["paths"].items():
        address = path.replace("{index}", "letters").replace("{docid}", "d1")
        for name, told in methods.items():
            refused = server.client.request(other[name], address)
            if other[name] not in methods:
                assert refused.status_code == 405 and name.upper() in refused.headers["Allow"], path
                assert set(refused.json()) == {"detail"}
            if name == "post":
                for content in (b"{", b"[]", b"\xff", b"[" * 100_000):
                    headers = {"Content-Type": "application/json"}
                    answer = server.client.post(address, content=content, headers=headers)
                    assert answer.status_code == 422 and "422" in told["responses"], path
            assert {"401", "405", "408", "413", "421", "429", "500"} <= told["responses"].keys()
    for query in ("", "  "):
        assert server.client.get("/search/stream", params={"query": query}).status_code == 422
    wait_until(lambda: server.metric("tour_running") == 0)
