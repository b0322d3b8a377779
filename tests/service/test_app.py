"""The application: its pages and routes, what it says of itself, the key, and what goes wrong inside it."""

import logging
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from in_memory_collection import InMemoryCollection, wait_until

from tour_pyserini import TourError
from tour_pyserini.core.method import METHODS
from tour_pyserini.service.app import new_app
from tour_pyserini.service.serving import digest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"
REQUESTS = re.findall(r"^```console\n\$ (.*?)\n```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
SECRET = "cannot read /srv/secret/corpus.jsonl at 10.0.0.7"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("command", REQUESTS)
def test_the_requests_of_the_docs_get_answers(server, command):
    here = command.replace("http://127.0.0.1:8080", server.url)
    assert here != command
    here = here.replace("curl -s", "curl -sf --noproxy 127.0.0.1")
    done = subprocess.run(["bash", "-c", here], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(("{", "[", "event: settings"))


def test_what_the_service_says_of_itself(server):
    about = server.client.get("/about").json()
    assert about["method"] == "tour" and about["documents"] == 60 and len(about["examples"]) == 5  # titles
    assert [choice["value"] for choice in about["choices"]][:2] == ["tour", "preset:mixed"]
    before = server.metric("tour_searches_total")
    server.search("a b", k=2)
    assert server.metric("tour_searches_total") == before + 1
    assert server.client.get("/health").json() == {"status": "ok"}
    assert server.client.get("/ready").json() == {"status": "ready"}


def test_the_description_of_the_routes_is_true(server):
    api = server.client.get("/openapi.json").json()
    ours = [name for name, one in METHODS.items() if one.run.__module__.startswith("tour_pyserini.")]
    properties = api["components"]["schemas"]["SearchBody"]["properties"]
    assert properties["method"]["anyOf"][0]["enum"] == ours  # plugins of other tests are not the service's
    assert "default" in properties["preset"]["anyOf"][0]["enum"]
    asked = {one["name"]: one["schema"] for one in api["paths"]["/search/stream"]["get"]["parameters"]}
    assert asked["query"]["minLength"] == 1 and asked["method"]["anyOf"][0]["enum"] == ours
    assert properties["query"]["minLength"] == 1 and properties["query"]["maxLength"] == 2000
    other = {"get": "post", "post": "get"}
    for path, routes in api["paths"].items():
        address = path.replace("{index}", "letters").replace("{docid}", "d1")
        for name, told in routes.items():
            refused = server.client.request(other[name], address)
            if other[name] not in routes:
                assert refused.status_code == 405 and name.upper() in refused.headers["Allow"], path
                assert set(refused.json()) == {"detail"}
            for content in (b"{", b"[]", b"\xff", b"[" * 100_000) if "requestBody" in told else ():
                answer = server.client.post(address, content=content, headers={"Content-Type": "application/json"})
                assert answer.status_code == 422 and "422" in told["responses"], path
            assert {"401", "405", "408", "413", "421", "429", "500"} <= told["responses"].keys()


OUTSIDE = ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/static/../../app.py", "/redoc"]
IMPOSSIBLE = ["/%00", "/" + "a" * 300, "/x%00/y"]


def test_the_page_folder_is_all_that_is_served_and_no_page_needs_the_network(server):
    assert {server.client.get(path).status_code for path in (*OUTSIDE, *IMPOSSIBLE)} == {404}
    for path in ("/", "/docs"):
        page = server.client.get(path)
        assert page.headers["content-type"].startswith("text/html") and "<script" in page.text
        assert "://" not in page.text


def test_what_the_request_is_not_to_blame_for_is_told_to_the_log_only(monkeypatch, caplog):
    def fail(*_, **__):
        raise TourError(SECRET)

    collection = InMemoryCollection()
    collection.reranker.gate.set()
    monkeypatch.setattr(collection, "text", fail)
    with (
        TestClient(new_app(collection), base_url="http://127.0.0.1") as client,
        caplog.at_level(logging.WARNING),
    ):
        answers = [client.post("/search", json={"query": "a b"}), client.get("/documents/d1")]
        answers.append(client.post("/rerank", json={"query": "bad", "texts": ["a"]}))
        stream = client.get("/search/stream", params={"query": "a b"}).text
    assert [answer.status_code for answer in answers] == [500] * 3
    assert {answer.json()["detail"] for answer in answers} == {"the service has failed; its log says why."}
    assert caplog.text.count(f"TourError: {SECRET}") == 3 and "ValueError: bad passage" in caplog.text
    assert "event: error" in stream and "secret" not in stream


def test_who_finds_no_room_is_sent_away_and_told_when_to_return():
    collection = InMemoryCollection(at_once=1, queue=1)
    with (
        TestClient(new_app(collection), base_url="http://127.0.0.1") as client,
        ThreadPoolExecutor(2) as clients,
    ):
        asking = [clients.submit(client.post, "/search", json={"query": "a"}) for _ in range(2)]
        wait_until(lambda: client.get("/ready").status_code == 503)
        refused = client.post("/search", json={"query": "a"})
        assert refused.status_code == 429 and int(refused.headers["Retry-After"]) >= 1
        assert "come again" in refused.json()["detail"]
        collection.reranker.gate.set()
        assert [one.result().status_code for one in asking] == [200, 200]


def test_the_key():
    app = new_app(InMemoryCollection(), keys={digest("open sesame"): None})
    with TestClient(app, base_url="http://127.0.0.1") as client:
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
