"""What a service refuses: wrong and large requests, strangers; always in one sentence, never with a traceback."""

import http.client
import json
import subprocess
import sys

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running_server import running_server

from tour_pyserini import TourError
from tour_pyserini.cli.serve_flags import serve_parser
from tour_pyserini.service.guard import local_names, read_key
from tour_pyserini.service.serve_request import ServeRequest

WRONG = {
    "an empty query": ({"query": " "}, "empty"),
    "no query": ({}, "query"),
    "a long query": ({"query": "a" * 2001}, "2001 characters"),
    "no queries": ({"query": []}, "1 to 64"),
    "many queries": ({"query": ["a"] * 65}, "1 to 64"),
    "too many hits": ({"query": "a", "k": 1001}, "allows 1000"),
    "no hits": ({"query": "a", "hits": 0}, "hits"),
    "a large budget": ({"query": "a", "budget": 201}, "allows 200"),
    "a deep search": ({"query": "a", "settings": {"depth": 500}}, "allows 200"),
    "a method that does not exist": ({"query": "a", "method": "magic"}, "magic"),
    "a setting that does not exist": ({"query": "a", "settings": {"index": "/etc"}}, "not a setting"),
    "a method among settings": ({"query": "a", "settings": {"method": "hard"}}, "beside"),
    "an endless number": ({"query": "a", "hits": 10**400}, "hits"),
    "scores without end": ({"query": "a", "method": "hard", "settings": {"similarity_scale": 1e308}}, "finite"),
    "a wrong setting": ({"query": "a", "settings": {"score_weight": 2}}, "[0, 1]"),
    "an unknown field": ({"query": "a", "reranker": "/models/other"}, "reranker"),
    "rounds that fill the memory": ({"query": ["a"] * 64, "k": 1000, "rounds": True}, "tells 50000 at most"),
    "a deadline that is none": ({"query": "a", "deadline_ms": -1}, "deadline_ms"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_requests_get_one_sentence(server, name):
    body, words = WRONG[name]
    answer = server.client.post("/search", json=body)
    assert answer.status_code == 422 and words in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"] and "Traceback" not in answer.text


def test_what_is_not_json_is_refused(server):
    for content in (b"{", b"\xff\xfe", b'{"query": NaN}', b"[" * 100_000):
        answer = server.client.post("/search", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422) and set(answer.json()) == {"detail"}


def test_pyserinis_routes_refuse_what_is_wrong(server):
    for body, words in (
        ({"query": "a", "qid": "x" * 201}, "qid"),
        ({"query": {"query_txt": "\ud800"}}, "surrogate"),
        ({"query": {"query_txt": 3}}, "query_txt"),
    ):
        answer = post_json(server, "/v1/indexes/letters/search", body)
        assert answer.status_code == 422 and words in answer.json()["detail"]


def test_passages_that_are_no_text_are_refused(server):
    answer = post_json(server, "/rerank", {"query": "a", "documents": [{"text": "a"}, {"text": "\udfff"}]})
    assert answer.status_code == 422 and "surrogate" in answer.json()["detail"]


def post_json(server, path, body):
    """Post a body that may have halves of characters, escaped as JSON escapes them."""
    return server.client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})


def test_a_stream_of_too_many_lines_is_refused(server):
    settings = {"setting": ["depth=1", "budget=99"]}
    answer = server.client.get("/search/stream", params={"query": "a", "hits": 600, **settings})
    assert answer.status_code == 422 and "60000 lines" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/%00", "/" + "a" * 300, "/" + "a" * 300 + "/b", "/x%00/y"])
def test_paths_that_no_file_can_have(server, path):
    assert server.client.get(path).status_code == 404


def test_a_request_for_no_path_is_answered(server):
    connection = http.client.HTTPConnection("127.0.0.1", httpx.URL(server.url).port)
    connection.request("OPTIONS", "*")
    answer = connection.getresponse()
    assert answer.status in (400, 404, 405) and b"Traceback" not in answer.read()
    connection.close()


def test_large_bodies_are_refused_with_and_without_their_length(server):
    large = b'{"query": "' + b"a" * 1_000_001 + b'"}'
    for content in (large, iter([large[:500_000], large[500_000:]])):
        answer = server.client.post("/search", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413 and "1000000 bytes" in answer.json()["detail"]
    assert server.search("a b").status_code == 200


def test_foreign_host_names_and_other_sites_are_refused(server):
    assert server.client.get("/health", headers={"Host": "evil.example"}).status_code == 421
    answer = server.client.post("/search", json={"query": "a"}, headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


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


def test_no_page_needs_the_network(server):
    for path in ("/", "/docs"):
        page = server.client.get(path).text
        assert "://" not in page and "<script" in page
    assert server.client.get("/redoc").status_code == 404


def test_the_page_folder_is_all_that_is_served(server):
    for path in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/static/../../app.py"):
        assert server.client.get(path).status_code == 404


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("query", "hits", "k", "qid", "method", "preset", "settings", "budget", "deadline_ms", "rounds")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(["a b", "hard", 3]), max_size=6))
def test_no_body_makes_the_service_fail(server, body):
    answer = server.client.post("/search", json=body)
    assert answer.status_code in (200, 422), (body, answer.text)


def test_the_key(small):
    with running_server(*small.flags, cache=small.cache, TOUR_PYSERINI_SERVICE_KEY="open sesame") as server:
        assert server.search("a b").status_code == 401
        assert server.client.get("/documents/d1").status_code == server.client.get("/metrics").status_code == 401
        assert server.client.get("/openapi.json").status_code == server.client.post("/mcp").status_code == 401
        for path in ("/health", "/ready", "/", "/docs", "/routes.js"):
            assert server.client.get(path).status_code == 200
        for path in ("/%00", "/" + "a" * 300):
            assert server.client.get(path).status_code == 401
        wrong = {"Authorization": "Bearer open sesam"}
        assert httpx.get(f"{server.url}/documents/d1", headers=wrong, trust_env=False).status_code == 401
        for header in ({"Authorization": "Bearer open sesame"}, {"X-API-Key": "open sesame"}):
            assert httpx.get(f"{server.url}/documents/d1", headers=header, trust_env=False).status_code == 200


def test_a_service_answers_to_its_own_address():
    assert "127.0.0.2" in local_names(ServeRequest(host="127.0.0.2"))
    assert {"127.0.0.1", "localhost"} < set(local_names(ServeRequest()))
    assert "127.0.0.2" not in local_names(ServeRequest())
    assert local_names(ServeRequest(host="0.0.0.0")) is None


def test_the_flags_are_those_of_a_service():
    flags = serve_parser().format_help()
    assert "--nprobe" in flags
    assert not [name for name in ("--shard", "--ray", "--batch-size", "--output") if name in flags]


HANGING = """
import asyncio, socket, sys
from tour_pyserini.service.serving import _run

async def app(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    await send({"type": "lifespan.startup.complete"})
    print("started", flush=True)
    assert (await receive())["type"] == "lifespan.shutdown"
    print("ending", flush=True)
    await asyncio.sleep(60)

_run(app, socket.create_server(("127.0.0.1", 0)))
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


def test_other_machines_need_a_key(tmp_path, monkeypatch):
    monkeypatch.delenv("TOUR_PYSERINI_SERVICE_KEY", raising=False)
    with pytest.raises(TourError, match="lets other machines in"):
        read_key(ServeRequest(host="0.0.0.0"))
    (tmp_path / "key").write_text("a long secret\n")
    assert read_key(ServeRequest(host="0.0.0.0", key_file=tmp_path / "key")) == "a long secret"
    assert read_key(ServeRequest(host="0.0.0.0", no_key=True)) is None
    assert read_key(ServeRequest()) is None
    (tmp_path / "key").write_text("short")
    with pytest.raises(TourError, match="8 characters"):
        read_key(ServeRequest(key_file=tmp_path / "key"))
