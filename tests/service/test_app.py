"""The application: its pages, what it says of itself, and what goes wrong inside it."""

import logging
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from in_memory_collection import InMemoryCollection

from tour_pyserini import TourError
from tour_pyserini.core.method import METHODS
from tour_pyserini.service.app import new_app

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


def test_figures_and_health(server):
    before = server.metric("tour_searches_total")
    server.search("a b", k=2)
    assert server.metric("tour_searches_total") == before + 1
    assert server.client.get("/health").json() == {"status": "ok"}
    assert server.client.get("/ready").json() == {"status": "ready"}


def test_what_the_service_says_of_itself(server):
    about = server.client.get("/about").json()
    ours = [name for name, one in METHODS.items() if one.run.__module__.startswith("tour_pyserini.")]
    assert about["method"] == "tour" and about["methods"] == ours  # plugins of other tests are not the service's
    assert about["documents"] == 60 and len(about["examples"]) == 5  # titles
    assert [choice["value"] for choice in about["choices"]][:2] == ["tour", "preset:mixed"]
    assert all(choice["about"].endswith(".") for choice in about["choices"] if choice["name"] in ours)


def test_no_page_needs_the_network(server):
    for path in ("/", "/docs"):
        page = server.client.get(path)
        assert page.headers["content-type"].startswith("text/html") and "<script" in page.text
        assert "://" not in page.text
    assert server.client.get("/redoc").status_code == 404


OUTSIDE = ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/static/../../app.py"]
IMPOSSIBLE = ["/%00", "/" + "a" * 300, "/" + "a" * 300 + "/b", "/x%00/y"]


@pytest.mark.parametrize("path", [*OUTSIDE, *IMPOSSIBLE])
def test_the_page_folder_is_all_that_is_served(server, path):
    assert server.client.get(path).status_code == 404


@pytest.fixture
def memory():
    """A service of a collection in memory."""
    collection = InMemoryCollection()
    collection.reranker.gate.set()
    with TestClient(new_app(collection), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.collection = collection
        yield client


def fail(*_, **__):
    raise TourError(SECRET)


def test_what_the_request_is_not_to_blame_for_is_told_to_the_log_only(memory, monkeypatch, caplog):
    monkeypatch.setattr(memory.collection, "text", fail)
    with caplog.at_level(logging.WARNING):
        answers = [
            memory.post("/search", json={"query": "a b"}),
            memory.get("/documents/d1"),
            memory.get("/v1/indexes/memory/documents/d1"),
        ]
    assert [answer.status_code for answer in answers] == [500] * 3
    assert {answer.json()["detail"] for answer in answers} == {"the service has failed; its log says why."}
    assert caplog.text.count(f"TourError: {SECRET}") == 3
    stream = memory.get("/search/stream", params={"query": "a b"}).text
    assert "event: error" in stream and "secret" not in stream


@pytest.mark.parametrize("path", ["/search", "/rerank"])
def test_a_re_ranker_that_fails_is_no_reason_to_end(memory, path):
    bad, good = ({"query": query, **({"texts": ["a"]} if path == "/rerank" else {})} for query in ("bad", "a"))
    assert [memory.post(path, json=body).status_code for body in (good, bad, bad, good)] == [200, 500, 500, 200]
