"""A service gives what the command line gives: lists, streams, documents, labels, over HTTP."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tour_pyserini import TourConfig, load_reranker
from tour_pyserini.core.arrays import strictly_decreasing
from tour_pyserini.pipeline import Opener, SearchRequest, search

METHODS = ("anchored", "hard", "rerank", "dense")


def events(text):
    """Name and data of each event of a stream."""
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def as_lines(answer):
    """Docids and scores, as a run file has them."""
    scores = strictly_decreasing(np.array([hit["score"] for hit in answer["candidates"]]))
    return [f"{hit['docid']} {score:.6f}" for hit, score in zip(answer["candidates"], scores, strict=True)]


@pytest.fixture(scope="module")
def runs(small):
    """The lists of the search command, by method and query id; it keeps no label."""
    lists, opener = {}, Opener()
    for method in METHODS:
        output = small.folder / f"{method}.trec"
        files = {"topics": small.folder / "topics.tsv", "reranker": small.folder / "reranker", "output": output}
        options = {"reranker_threads": 1, "hits": 20, "no_cache": True, "config": TourConfig(method, depth=5)}
        search(SearchRequest(**files, index=small.index[1], corpus=small.index[3], **options), opener=opener)
        for line in output.read_text().splitlines():
            qid, _, docid, _, score, _ = line.split()
            lists.setdefault((method, qid), []).append(f"{docid} {score}")
    return lists


def test_lists_are_those_of_the_command_line_whatever_else_is_searched(small, server, runs):
    wanted = [(method, qid) for qid in small.queries for method in METHODS]

    def ask(case):
        method, qid = case
        return server.search(small.queries[qid], qid=qid, method=method, k=20).json()

    with ThreadPoolExecutor(12) as clients:
        answers = list(clients.map(ask, wanted))
    for case, answer in zip(wanted, answers, strict=True):
        assert answer["query"] == {"qid": case[1], "query_txt": small.queries[case[1]]}
        assert as_lines(answer) == runs[case], case


def test_a_list_of_queries_gives_the_answers_of_each(small, server):
    queries = list(small.queries.values())[:3]
    together = server.search(queries, k=4).json()["answers"]
    assert [as_lines(answer) for answer in together] == [as_lines(server.search(q, k=4).json()) for q in queries]


def test_a_stream_has_every_list_and_ends_with_the_answer(small, server):
    query = small.queries["q1"]
    answer = server.search(query, k=6).json()
    stream = events(server.client.get("/search/stream", params={"query": query, "hits": 6}).text)
    names = [name for name, _ in stream]
    assert names[0] == "settings" and names[-1] == "answer" and set(names[1:-1]) == {"round"} and len(names) > 4
    rounds = [data for name, data in stream if name == "round"]
    assert [one["number"] for one in rounds] == list(range(len(rounds)))
    dense = server.search(query, k=6, method="dense").json()
    assert [hit["docid"] for hit in rounds[0]["candidates"]] == [hit["docid"] for hit in dense["candidates"]]
    assert rounds[0]["costs"]["labels"] == 0 and rounds[1]["costs"]["labels"] == 5
    assert as_lines(rounds[-1]) == as_lines(stream[-1][1]) == as_lines(answer)
    assert [one["stop"] for one in rounds[:-1]] == [None] * (len(rounds) - 1)
    assert rounds[-1]["stop"] == answer["stop"]


def test_what_moved_is_told(small, server):
    rounds = server.search(small.queries["q2"], k=6, rounds=True).json()["rounds"]
    for before, now in itertools.pairwise(rounds):
        ranks = {hit["docid"]: hit["rank"] for hit in before["candidates"]}
        shown = {hit["docid"]: hit for hit in now["candidates"]}
        assert {docid: hit["rank_before"] for docid, hit in shown.items()} == {
            docid: ranks.get(docid) for docid in shown
        }
        assert set(now["new"]) == shown.keys() - ranks.keys() and set(now["gone"]) == ranks.keys() - shown.keys()
        assert len(now["map"]["queries"]) == now["t"] + 1 and shown.keys() <= now["map"]["candidates"].keys()
        for docid, hit in shown.items():
            old = next((one for one in before["candidates"] if one["docid"] == docid), None)
            if old:
                assert hit["similarity_before"] == pytest.approx(old["similarity"])
            assert f"{hit['title']} {hit['words']}" == small.texts[docid]
            assert not hit["bought"] or hit["label"] is not None
    assert rounds[0]["map"]["queries"] == [[0, 0]]


def test_documents(small, server):
    document = server.client.get("/documents/d7").json()
    assert document["contents"] == small.texts["d7"] == f"{document['title']} {document['text']}"
    missing = server.client.get("/documents/nothing/here")
    assert missing.status_code == 404 and "nothing/here" in missing.json()["detail"]


def test_pyserinis_clients_find_their_routes(small, server):
    query = small.queries["q3"]
    answer = server.client.post("/v1/indexes/letters/search", json={"query": query, "hits": 3, "qid": "q3"}).json()
    ours = server.search(query, k=3).json()["candidates"]
    assert answer["query"] == {"qid": "q3", "query_txt": query}
    shown = [(hit["docid"], hit["score"], hit["document_txt"]) for hit in answer["candidates"]]
    assert shown == [(hit["docid"], hit["score"], small.texts[hit["docid"]]) for hit in ours]
    assert server.client.get("/v1/indexes/letters/documents/d7").json() == {"id": "d7", "contents": small.texts["d7"]}
    assert server.client.get("/v1/indexes/", params={"index_type": "faiss"}).json() == ["letters"]
    assert server.client.get("/v1/indexes/letters/status").json()["downloaded"] is True
    assert server.client.post("/v1/indexes/other/search", json={"query": query}).status_code == 404
    refused = server.client.post("/v1/indexes/letters/search", json={"query": query, "encoder": "/etc/passwd"})
    assert refused.status_code == 422 and "encoder" in refused.json()["detail"]


def test_our_own_client_gets_the_models_scores(small, server):
    pairs = [(small.queries[qid], small.texts[docid]) for qid in ("q0", "q1") for docid in ("d3", "d4", "d5")]
    local = load_reranker(small.folder / "reranker", threads=1)
    remote = load_reranker(f"{server.url}/rerank")
    assert np.array_equal(remote.predict(pairs), local.predict(pairs))


def test_a_rerank_request_of_the_common_dialect(small, server):
    documents = ["a b c", {"text": "d e f"}, "g h"]
    body = {"model": "any", "query": "a b", "documents": documents, "top_n": 2, "return_documents": True}
    answer = server.client.post("/v2/rerank", json=body).json()["results"]
    raw = {item["index"]: item["score"] for item in server.client.post(
        "/rerank", json={"query": "a b", "texts": ["a b c", "d e f", "g h"], "raw_scores": True}
    ).json()}  # fmt: skip
    best = sorted(raw, key=lambda index: -raw[index])
    assert list(raw) == best and [item["index"] for item in answer] == best[:2]
    for item in answer:
        assert item["relevance_score"] == pytest.approx(1 / (1 + np.exp(-raw[item["index"]])))
        assert item["document"]["text"] == ["a b c", "d e f", "g h"][item["index"]]


def test_labels_are_kept_for_the_next_search(small, server):
    first = server.search("a b c d e f", k=5).json()["costs"]
    again = server.search("a b c d e f", k=5).json()["costs"]
    assert first["labels"] == first["scored"] == again["labels"] > 0 and again["scored"] == 0


def test_figures_health_and_page(server):
    before = server.metric("tour_searches_total")
    server.search("a b", k=2)
    assert server.metric("tour_searches_total") == before + 1
    assert server.client.get("/health").json() == {"status": "ok"}
    assert server.client.get("/ready").json() == {"status": "ready"}
    assert server.client.get("/").headers["content-type"].startswith("text/html")
