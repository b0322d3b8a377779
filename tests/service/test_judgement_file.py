"""Judgements that a service keeps: what is torn is cut off, what is given out are valid qrels."""

import json

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from in_memory_collection import InMemoryCollection

from tour_pyserini import TourError
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.topics import read_topics
from tour_pyserini.service.app import new_app
from tour_pyserini.service.judgement_file import Judgements
from tour_pyserini.service.serving import digest


def service(path, **options):
    return TestClient(new_app(InMemoryCollection(judgements=path), **options), base_url="http://127.0.0.1")


def judged(path):
    return {(one.query_id, one.doc_id): one.relevance for one in read_qrels(path)}


def test_the_last_judgement_counts_and_the_file_given_out_is_qrels(tmp_path):
    path, given_out = tmp_path / "kept", tmp_path / "qrels"
    with service(path) as client:
        for query, docid, grade in (("why  so", "d1", 1), ("who", "d1", 2), ("why so", "d1", 0), ("why so", "d2", 1)):
            body = {"query": query, "docid": docid, "relevance": grade}
            answer = client.post("/judgements", json=body)
            assert (answer.status_code, answer.json()) == (200, body)
            before = path.read_bytes()
        client.post("/judgements", json=body)
        assert path.read_bytes() == before  # it is known
        given_out.write_text(client.get("/judgements").text)
        (tmp_path / "topics.tsv").write_text(client.get("/judgements/topics").text)
    topics = {topic["title"]: qid for qid, topic in read_topics(tmp_path / "topics.tsv").topics.items()}
    assert judged(given_out) == {(topics["why so"], "d1"): 0, (topics["why so"], "d2"): 1, (topics["who"], "d1"): 2}
    again = Judgements(path, {})
    assert again.qrels() == given_out.read_text() and again.grade("why so", "d1") == 0
    assert path.read_bytes() == before


def test_hits_tell_what_was_judged_and_topics_keep_their_ids(tmp_path):
    kept = Judgements(tmp_path / "kept", {"a topic": "t7"})
    kept.add("a  topic", "d3", 1)
    assert kept.qrels() == "t7 0 d3 1\n"
    with service(tmp_path / "other") as client:
        assert client.get("/about").json()["judgements"] is True
        client.post("/judgements", json={"query": "a", "docid": "d3", "relevance": 0})
        hits = client.post("/search", json={"query": "a", "k": 40, "method": "dense"}).json()["candidates"]
    assert {hit["docid"]: hit["judged"] for hit in hits} == {f"d{i}": 0 if i == 3 else None for i in range(40)}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"docid": "nothing"}, {}, 404),
        ({"docid": "d1 d2"}, {}, 422),
        ({"relevance": 4}, {}, 422),
        ({"relevance": True}, {}, 422),
        ({"query": " "}, {}, 422),
        ({}, {"Origin": "https://evil.example"}, 403),
        ({}, {"Sec-Fetch-Site": "cross-site"}, 403),
        ({}, {"Content-Type": "text/plain"}, 422),
        ({}, {"Authorization": "Bearer wrong key"}, 401),
        ({}, {}, 200),
    ],
)
def test_who_may_judge_what(tmp_path, body, headers, status):
    with service(tmp_path / "kept", keys={digest("open sesame"): None}) as client:
        headers = {"Authorization": "Bearer open sesame", "Content-Type": "application/json", **headers}
        content = json.dumps({"query": "why", "docid": "d1", "relevance": 1, **body})
        assert client.post("/judgements", content=content, headers=headers).status_code == status
        assert client.get("/judgements").status_code == 401
        assert client.put("/judgements", headers={"X-API-Key": "open sesame"}).headers["Allow"] == "GET, POST"
    assert bool((tmp_path / "kept").read_text()) == (status == 200)


def test_without_a_file_there_is_no_such_route():
    with service(None) as client:
        assert client.get("/judgements").status_code == client.post("/judgements", json={}).status_code == 404
        assert "/judgements" not in client.get("/openapi.json").json()["paths"]


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 200))
def test_a_torn_end_is_cut_off_and_the_rest_is_kept(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("torn") / "kept"
    kept = Judgements(path, {})
    for i in range(5):
        kept.add(f"query {i % 2}", f"d{i}", i % 2)
    whole, lines = path.read_bytes(), kept.qrels().splitlines()
    path.write_bytes(whole[: len(whole) - min(cut, len(whole))])
    again = Judgements(path, {})
    left = again.qrels().splitlines()
    assert left == lines[: len(left)] and len(left) >= 4 - cut // 10
    again.add("query 1", "d9", 1)
    assert Judgements(path, {}).qrels().splitlines() == [*left, lines[1].split()[0] + " 0 d9 1"]


def test_a_judgement_that_does_not_fit_on_the_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    kept = Judgements(tmp_path / "kept", {})
    kept.add("why", "d1", 1)
    before = (tmp_path / "kept").read_bytes()

    def full(_):
        raise OSError("no space left")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
        patch.setattr("os.fsync", full)
        kept.add("why", "d2", 1)
    assert (tmp_path / "kept").read_bytes() == before and kept.grade("why", "d2") is None


@pytest.mark.parametrize("content", [b"\xff\n", b"{}\n", b"q1 0 d1 good\n"])
def test_another_file_is_not_touched(tmp_path, content):
    (tmp_path / "kept").write_bytes(content)
    with pytest.raises(TourError, match="kept"):
        Judgements(tmp_path / "kept", {})
    assert (tmp_path / "kept").read_bytes() == content
