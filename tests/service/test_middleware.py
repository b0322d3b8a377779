"""What every request passes: the key, host names, sizes, times and headers."""

import asyncio
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from in_memory_collection import InMemoryCollection
from own_loop import awaited

from tour_pyserini import TourError
from tour_pyserini.service.app import new_app
from tour_pyserini.service.middleware import HEADERS, ObservedApp, arrival, local_names, note_answered, read_key
from tour_pyserini.service.serve_request import KEY_VARIABLE, ServeRequest


def observed(app, sent):
    counted = []
    metrics = SimpleNamespace(request=lambda *what: counted.append(what))
    return ObservedApp(app, metrics, routes=["known"], sent=sent), counted


def test_a_request_lasts_from_its_first_byte_to_the_last_of_its_answer():
    sent, messages = [], []

    async def app(scope, receive, send):
        request = SimpleNamespace(scope=scope)
        came = arrival(request)
        await asyncio.sleep(0.01)
        assert arrival(request) == came
        note_answered(request, ["first", "second"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        assert not sent

    async def send(message):
        messages.append(message)

    app, counted = observed(app, sent.append)
    awaited(app({"path": "/known/part"}, None, send))
    assert sent == [["first", "second"]] and counted == [("known", 200)]
    assert messages[0]["headers"] == [(b"a", b"b"), *HEADERS]


def test_a_request_that_is_refused_is_counted_and_not_learnt_from():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 404})

    async def send(message):
        pass

    app, counted = observed(app, pytest.fail)
    awaited(app({"path": "/invented"}, None, send))
    assert counted == [("other", 404)]


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


def test_a_service_answers_to_its_own_address():
    assert "127.0.0.2" in local_names(ServeRequest(host="127.0.0.2"))
    assert {"127.0.0.1", "localhost"} < set(local_names(ServeRequest()))
    assert "127.0.0.2" not in local_names(ServeRequest())
    assert local_names(ServeRequest(host="0.0.0.0")) is None


@pytest.mark.parametrize(
    ("content", "request_", "wanted"),
    [
        ("a long secret\nmore\n", {"host": "0.0.0.0"}, "a long secret"),
        (None, {}, None),
        (None, {"host": "0.0.0.0", "no_key": True}, None),
        (None, {"host": "0.0.0.0"}, TourError("lets other machines in")),
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
            read_key(ServeRequest(**request_))
    else:
        assert read_key(ServeRequest(**request_)) == wanted


def test_a_key_file_that_is_not_there(tmp_path):
    with pytest.raises(TourError, match="cannot read the key"):
        read_key(ServeRequest(key_file=tmp_path / "nothing"))
