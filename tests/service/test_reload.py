"""A service whose index is changed while it is asked: every search has an answer of the old or the new index."""

import json
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from in_memory_collection import wait_until
from running_server import running_server

from tour_pyserini.index import IndexRequest, build_index


@pytest.fixture
def own(small, tmp_path, monkeypatch):
    """A copy of the small index, a server of it, and what adds a document to it."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(small.cache))
    shutil.copytree(small.folder / "letters", tmp_path / "letters")
    number = count(60)
    (tmp_path / "delete").write_text("d0\n")

    def add(index=tmp_path / "letters"):
        (tmp_path / "add.jsonl").write_text(json.dumps({"_id": f"d{next(number)}", "text": "a b c d a b c d"}) + "\n")
        files = {"add": tmp_path / "add.jsonl", "delete": tmp_path / "delete"}
        build_index(IndexRequest(index=index, corpus=small.folder / "letters.jsonl", **files, threads=1))

    flags = ("--index", tmp_path / "letters", *small.flags[2:])
    with running_server(*flags, cache=small.cache, TOUR_PYSERINI_SERVICE_KEY="a secret key") as server:
        server.client.headers["X-API-Key"] = "a secret key"
        yield server, add, tmp_path / "letters"


def documents(server):
    return server.client.get("/about").json()["documents"]


def test_no_search_is_lost(own):
    server, add, index = own
    assert documents(server) == 60 and server.client.get("/documents/d60").status_code == 404
    done = False

    def ask(worker):
        answers = []
        while not done:
            body = {"query": f"a b {'abcdefghij'[len(answers) % 10]}", "hits": 61, "rounds": bool(worker % 2)}
            answers.append(server.client.post("/search", json=body))
        return answers

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(ask, worker) for worker in range(4)]
        try:
            for size in (60, 61, 62):
                add()
                assert server.client.post("/reload").json() == {"documents": size}
            add()
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: documents(server) == 63)
        finally:
            done = True
        answers = [answer for worker in asked for answer in worker.result()]
    assert {answer.status_code for answer in answers} == {200} and len(answers) > 8
    lists = [[hit["docid"] for hit in answer.json()["candidates"]] for answer in answers]
    assert {len(found) for found in lists} <= {60, 61}
    assert "d63" in {hit["docid"] for hit in server.search("a b", hits=61).json()["candidates"]}
    for headers, status in (({"X-API-Key": "another"}, 401), ({"Origin": "http://other.org"}, 403)):
        assert server.client.post("/reload", headers=headers).status_code == status
    (index / "docid").write_text("damaged\n")
    assert server.client.post("/reload").status_code == 503
    assert server.search("a b").status_code == 200 and documents(server) == 63
    code, log = server.stop()
    *levels, last = [line.split(" ", 2)[2].split(" ")[0] for line in log.splitlines()]
    assert code == 0 and levels.count("WARNING") == len(levels) >= 4 and last == "ERROR"
