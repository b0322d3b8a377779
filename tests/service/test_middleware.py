"""What every request passes: the key, host names, sizes, times and headers."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from in_memory_collection import InMemoryCollection
from own_loop import awaited

from tour_pyserini import TourError
from tour_pyserini.service import middleware
from tour_pyserini.service.app import new_app
from tour_pyserini.service.dispatcher import ARRIVED
from tour_pyserini.service.middleware import HEADERS, Guard
from tour_pyserini.service.serving import KEY_VARIABLE, ServeRequest


def guarded(app, *parts, path="/known/part", headers=()):
    """The messages of the answer to a request whose body comes in parts, and what was counted."""
    sent, counted, left = [], [], list(parts)
    metrics = SimpleNamespace(request=lambda *what: counted.append(what))
    guard = Guard(app, metrics, routes=["known"], pages=[], key=None, names=None)
    scope = {"type": "http", "method": "POST", "path": path, "headers": list(headers)}

    async def receive():
        if not left:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or parts[-1] == b"..."}

    async def send(message):
        sent.append(message)

    awaited(guard(scope, receive, send))
    return sent, counted


async def echo(scope, receive, send):
    """Answers with the body, after a while."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    assert 0 <= time.monotonic() - scope[ARRIVED] < 30
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": body})


def test_a_request_is_passed_on_whole_timed_and_counted(monkeypatch):
    sent, counted = guarded(echo, b"one ", b"two", headers=[(b"content-length", b"7")])
    assert sent[0]["headers"] == [(b"a", b"b"), *HEADERS] and sent[1]["body"] == b"one two"
    assert counted == [("known", 200)]
    assert guarded(echo, b"", path="/invented")[1] == [("other", 200)]
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.05)
    sent, counted = guarded(echo, b"one", b"...", headers=[(b"transfer-encoding", b"chunked")])
    assert counted == [("known", 408)] and (b"connection", b"close") in sent[0]["headers"]


def test_the_key():
    with TestClient(new_app(InMemoryCollection(), key="open sesame"), base_url="http://127.0.0.1") as client:
        for path in ("/documents/d1", "/metrics", "/openapi.json", "/mcp", "/%00", "/" + "a" * 300):
            assert client.get(path).status_code == 401
        assert client.post("/search", json={"query": "a"}).status_code == client.post("/").status_code == 401
        for path in ("/health", "/ready", "/", "/docs", "/routes.js"):
            assert client.get(path).status_code == 200
        for headers, status in (
            ({"Authorization": "Bearer open sesam"}, 401),
            ({"Authorization": "Bearer open sesame"}, 200),
            ({"X-API-Key": "open sesame"}, 200),
        ):
            assert client.get("/documents/d1", headers=headers).status_code == status


def test_foreign_host_names_and_other_sites_are_refused(server):
    assert server.client.get("/health", headers={"Host": "evil.example"}).status_code == 421
    answer = server.client.post("/search", json={"query": "a"}, headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_large_bodies_are_refused_with_and_without_their_length(server):
    large = b'{"query": "' + b"a" * 1_000_001 + b'"}'
    for content in (large, iter([large[:500_000], large[500_000:]])):
        answer = server.client.post("/search", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413 and "1000000 bytes" in answer.json()["detail"]
    assert server.search("a b").status_code == 200


def test_no_answer_is_shown_in_a_frame_or_taken_for_another_type(server):
    answers = [
        *(server.client.get(path) for path in ("/", "/docs", "/main.js", "/health", "/openapi.json", "/nothing")),
        server.search("a b"),
        server.search(" "),
        server.client.get("/search/stream?query=a"),
        server.client.get("/health", headers={"Host": "evil.example"}),
    ]
    assert {answer.status_code for answer in answers} == {200, 404, 421, 422}
    for answer in answers:
        assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_pages_of_other_sites_cannot_spend_labels(server, headers, status):
    calls = server.metric("tour_searches_total")
    assert server.client.get("/search/stream?query=a", headers=headers).status_code == status
    own = {"Origin": server.url}
    assert server.client.get("/search/stream?query=a&method=dense", headers=own).status_code == 200
    assert server.metric("tour_searches_total") == calls + 1 + (status == 200)
    assert server.client.get("/", headers=headers).status_code == 200  # a link to the page is one from another site


def test_a_service_answers_to_its_own_address():
    assert "127.0.0.2" in ServeRequest(host="127.0.0.2").names
    assert {"127.0.0.1", "localhost", "::1"} < ServeRequest(host="127.0.0.3").names
    assert "127.0.0.2" not in ServeRequest().names and ServeRequest(host="0.0.0.0").names is None


@pytest.mark.parametrize(
    ("content", "request_", "wanted"),
    [
        ("a long secret\nmore\n", {"host": "0.0.0.0"}, "a long secret"),
        (None, {}, None),
        (None, {"host": "0.0.0.0", "no_key": True}, None),
        (None, {"host": "0.0.0.0"}, TourError("lets other machines in")),
        (None, {"key_file": "nowhere/key"}, TourError("cannot read the key")),
        ("short", {}, TourError("8 characters")),
        ("\nsecond line\n", {}, TourError("empty")),
        ("pässword", {}, TourError("ASCII")),
    ],
)
def test_where_the_key_comes_from(tmp_path, monkeypatch, content, request_, wanted):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    if content is not None:
        (tmp_path / "key").write_text(content, encoding="utf-8")
        request_ = {**request_, "key_file": tmp_path / "key"}
    if isinstance(wanted, TourError):
        with pytest.raises(TourError, match=str(wanted)):
            ServeRequest(**request_).read_key()
    else:
        assert ServeRequest(**request_).read_key() == wanted
