"""What every request passes: host names, other sites, sizes, times and headers."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from own_loop import awaited

from tour_pyserini.service import middleware
from tour_pyserini.service.dispatcher import ARRIVED
from tour_pyserini.service.middleware import HEADERS, Guard
from tour_pyserini.service.serving import ServeRequest


def guarded(app, *parts, path="/known/part", headers=()):
    """The messages of the answer to a request whose body comes in parts, and what was counted."""
    sent, counted, left = [], [], list(parts)
    dispatcher = SimpleNamespace(count=lambda *what: counted.append(what), keys=None, limits=ServeRequest(host="::"))
    guard = Guard(app, dispatcher, routes=["known"], pages=[])

    async def receive():
        if not left:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or parts[-1] == b"..."}

    async def send(message):
        sent.append(message)

    awaited(guard({"type": "http", "method": "POST", "path": path, "headers": list(headers)}, receive, send))
    return sent, counted


async def echo(scope, receive, send):
    """Answers with the body."""
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


def test_large_bodies_are_refused_with_and_without_their_length(server):
    large = b'{"query": "' + b"a" * 1_000_001 + b'"}'
    for content in (large, iter([large[:500_000], large[500_000:]])):
        answer = server.client.post("/search", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413 and "1000000 bytes" in answer.json()["detail"]
    assert server.search("a b").status_code == 200


def test_no_answer_is_shown_in_a_frame_or_taken_for_another_type(server):
    paths = ("/", "/main.js", "/health", "/openapi.json", "/nothing", "/search/stream?query=a")
    foreign = server.client.get("/health", headers={"Host": "evil.example"})
    answers = [foreign, server.search("a b"), server.search(" "), *map(server.client.get, paths)]
    assert {answer.status_code for answer in answers} == {200, 404, 421, 422}
    for answer in answers:
        assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert not [name for name in answer.headers if name.startswith("access-control")]


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
    for path in ("/search/stream?query=a", "/v1/letters/search?query=a"):
        assert server.client.get(path, headers=headers).status_code == status
        assert server.client.get(path, headers={"Origin": server.url}).status_code == 200
    assert server.metric("tour_searches_total") == calls + 2 + 2 * (status == 200)
    assert server.client.get("/", headers=headers).status_code == 200  # a link to the page is one from another site
