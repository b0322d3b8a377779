"""A service gives what the command line gives: lists, streams, documents, labels. It refuses in a sentence."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tour_pyserini import TourConfig, TourReranker, load_reranker
from tour_pyserini.core.arrays import strictly_decreasing
from tour_pyserini.opening import Opener
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest

METHODS = ("tour", "hard", "rerank", "dense")


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
        config = TourConfig(method) if method == "dense" else TourConfig(method, depth=5)
        options = {"reranker_threads": 1, "hits": 20, "no_cache": True, "config": config, "sparse": "index"}
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
        assert (answer["qid"], answer["query"]) == (case[1], small.queries[case[1]])
        assert as_lines(answer) == runs[case], case


def test_a_stream_has_every_list_and_ends_with_the_answer(small, server):
    query = small.queries["q1"]
    answer = server.search(query, k=6).json()
    stream = events(server.client.get("/search/stream", params={"query": query, "hits": 6}).text)
    names = [name for name, _ in stream]
    assert names[0] == "settings" and names[-1] == "answer" and set(names[1:-1]) == {"round"} and len(names) >= 4
    rounds = [data for name, data in stream if name == "round"]
    dense = server.search(query, k=6, method="dense").json()
    assert [hit["docid"] for hit in rounds[0]["candidates"]] == [hit["docid"] for hit in dense["candidates"]]
    assert rounds[0]["costs"]["labels"] == 0 and rounds[1]["costs"]["labels"] == 5
    assert [one["number"] for one in rounds] == list(range(len(rounds)))
    assert as_lines(rounds[-1]) == as_lines(stream[-1][1]) == as_lines(answer)
    assert rounds[-1]["stop"] == answer["stop"]


def test_what_moved_is_told(small, server):
    rounds = server.search(small.queries["q2"], k=6, rounds=True).json()["rounds"]
    for before, now in itertools.pairwise(rounds):
        olds = {hit["docid"]: hit for hit in before["candidates"]}
        assert len(now["map"]["queries"]) == now["t"] + 1
        for hit in now["candidates"]:
            old = olds.get(hit["docid"], {"rank": None, "similarity": hit["similarity_before"]})
            assert hit["rank_before"] == old["rank"] and (hit["docid"] in now["new"]) == (old["rank"] is None)
            assert hit["similarity_before"] == pytest.approx(old["similarity"])
            assert f"{hit['title']} {hit['words']}" == small.texts[hit["docid"]]
            assert hit["docid"] in now["map"]["candidates"] and (hit["label"] is not None or not hit["bought"])
    assert len(rounds) > 1 and rounds[0]["map"]["queries"] == [[0, 0]]


def test_documents(small, server):
    document = server.client.get("/documents/d7").json()
    assert document["contents"] == small.texts["d7"] == f"{document['title']} {document['text']}"
    missing = server.client.get("/documents/nothing/here")
    assert missing.status_code == 404 and "nothing/here" in missing.json()["detail"]


def test_pyserinis_clients_find_their_routes(small, server):
    query = small.queries["q3"]
    answer = server.client.get("/v1/letters/search", params={"query": query, "hits": 3}).json()
    ours = server.search(query, k=3).json()["candidates"]
    assert (answer["api"], answer["index"], answer["query"]) == ("v1", "letters", {"text": query})
    shown = [(hit["docid"], hit["score"], hit["doc"]["contents"]) for hit in answer["candidates"]]
    assert shown == [(hit["docid"], hit["score"], small.texts[hit["docid"]]) for hit in ours]
    assert [hit["rank"] for hit in answer["candidates"]] == [1, 2, 3]
    document = {"api": "v1", "index": "letters", "docid": "d7", "doc": {"id": "d7", "contents": small.texts["d7"]}}
    assert server.client.get("/v1/letters/doc/d7").json() == document
    of_1 = server.client.post("/v1/indexes/letters/search", json={"query": query, "hits": 3, "qid": "q3"}).json()
    assert of_1["query"] == {"qid": "q3", "query_txt": query}
    assert [(hit["docid"], hit["score"], hit["document_txt"]) for hit in of_1["candidates"]] == shown
    assert server.client.get("/v1/indexes/letters/documents/d7").json() == document["doc"]
    assert server.client.get("/v1/indexes/", params={"index_type": "faiss"}).json() == ["letters"]
    assert server.client.get("/v1/indexes/letters/status").json()["downloaded"] is True
    for path in ("/v1/other/doc/d7", "/v1/indexes/other/documents/d7", "/v1/indexes/other/status"):
        assert server.client.get(path).status_code == 404
    assert server.client.post("/v1/indexes/other/search", json={"query": query}).status_code == 404


def test_our_own_client_gets_the_models_scores(small, server):
    pairs = [(small.queries[qid], small.texts[docid]) for qid in ("q0", "q1") for docid in ("d3", "d4", "d5")]
    local = load_reranker(small.folder / "reranker", threads=1)
    remote = load_reranker(f"{server.url}/rerank")
    assert np.array_equal(remote.predict(pairs), local.predict(pairs))


def test_a_list_is_ranked_with_a_budget(small, server):
    texts, scores = [*small.texts.values()][:30], [30.0 - i for i in range(30)]
    body = {"query": small.queries["q1"], "texts": texts, "scores": scores, "budget": 7}
    answer = server.client.post("/rerank", json=body).json()
    local = TourReranker(load_reranker(small.folder / "reranker", threads=1), TourConfig(depth=5, budget=7))
    expected = local.rank(small.queries["q1"], texts, scores=scores)
    assert [one["index"] for one in answer] == [one.position for one in expected]
    assert [one["score"] for one in answer] == pytest.approx([one.score for one in expected], abs=1e-6)
    for wrong in ({"scores": [1.0]}, {"budget": 0}, {"budget": 10**6}):
        assert server.client.post("/rerank", json={**body, **wrong}).status_code == 422


def test_a_rerank_request_of_the_common_dialect(small, server):
    texts = ["a b c", "d e f", "g h"]
    documents = [texts[0], {"text": texts[1]}, texts[2]]
    body = {"model": "any", "query": "a b", "documents": documents, "top_n": 2, "return_documents": True}
    answer = server.client.post("/v2/rerank", json=body).json()["results"]
    items = server.client.post("/rerank", json={"query": "a b", "texts": texts, "raw_scores": True}).json()
    raw = {item["index"]: item["score"] for item in items}
    best = sorted(raw, key=lambda index: -raw[index])
    assert list(raw) == best and [item["index"] for item in answer] == best[:2]
    for item in answer:
        assert item["relevance_score"] == pytest.approx(1 / (1 + np.exp(-raw[item["index"]])))
        assert item["document"]["text"] == texts[item["index"]]
    assert server.client.get("/info").json()["max_client_batch_size"] == 200


def test_labels_are_kept_for_the_next_search(small, server):
    first = server.search("a b c d e f", k=5).json()["costs"]
    again = server.search("a b c d e f", k=5).json()["costs"]
    assert first["labels"] == first["scored"] == again["labels"] > 0 and again["scored"] == 0


SEARCH, PYSERINI, RERANK = "/search", "/v1/indexes/letters/search", "/rerank"
WRONG = {
    "an empty query": (SEARCH, {"query": ""}, "at least 1"),
    "a blank query": (SEARCH, {"query": " "}, "empty"),
    "a long query": (SEARCH, {"query": "a" * 2001}, "2000 characters"),
    "several queries": (SEARCH, {"query": ["a"]}, "query"),
    "too many hits": (SEARCH, {"query": "a", "k": 1001}, "allows 1000"),
    "no hits": (SEARCH, {"query": "a", "hits": 0}, "hits"),
    "a large budget": (SEARCH, {"query": "a", "budget": 201}, "allows 200"),
    "a deep search": (SEARCH, {"query": "a", "method": "rerank", "settings": {"depth": 500}}, "allows 200"),
    "a preset that does not exist": (SEARCH, {"query": "a", "preset": "none"}, "preset"),
    "a method among the settings": (SEARCH, {"query": "a", "settings": {"method": "hard"}}, "beside"),
    "many updates": (SEARCH, {"query": "a", "method": "hard", "settings": {"iterations": 101, "depth": 1}}, "updates"),
    "a setting that does not exist": (SEARCH, {"query": "a", "settings": {"index": "/etc"}}, "index"),
    "a wrong setting": (SEARCH, {"query": "a", "method": "hard", "settings": {"score_weight": 2}}, "score_weight"),
    "scores without end": (SEARCH, {"query": "a", "method": "hard", "settings": {"similarity_scale": 1e308}}, "finite"),
    "an unknown field": (SEARCH, {"query": "a", "reranker": "/models/other"}, "reranker"),
    "rounds that fill the memory": (
        SEARCH,
        {"query": "a", "k": 1000, "rounds": True, "settings": {"depth": 1, "budget": 99}},
        "tells 50000 at most",
    ),
    "a deadline that is none": (SEARCH, {"query": "a", "deadline_ms": -1}, "deadline_ms"),
    "half of a character": (PYSERINI, {"query": {"query_txt": "\ud800"}}, "query"),
    "another encoder": (PYSERINI, {"query": "a", "encoder": "/etc/passwd"}, "encoder"),
    "half of a character in a passage": (RERANK, {"query": "a", "documents": ["a", {"text": "\udfff"}]}, "documents"),
    "no passages": (RERANK, {"query": "a", "texts": []}, "at least 1"),
    "many passages": (RERANK, {"query": "a", "texts": ["a"] * 201}, "1 to 200"),
    "two kinds of passages": (RERANK, {"query": "a", "texts": ["a"], "documents": ["a"]}, "the body: give either"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_requests_get_one_sentence(server, name):
    path, body, word = WRONG[name]
    # Halves of characters are escaped.
    answer = server.client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and word in answer.json()["detail"], answer.text
    assert "\n" not in answer.json()["detail"] and "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"hits": 600, "setting": ["depth=1", "budget=99"]}, "60000 lines"),
        ({"setting": ["depth"]}, "setting"),
        ({"setting": ["depth=1", "depth=2"]}, "twice"),
        ({"deadline_ms": "inf"}, "deadline_ms"),
        ({"query": " "}, "empty"),
        ({"query": ""}, "at least 1"),
    ],
)
def test_wrong_addresses_get_one_sentence(server, asked, word):
    answer = server.client.get("/search/stream", params={"query": "a", **asked})
    if set(asked) == {"query"}:
        of_pyserini = server.client.get("/v1/letters/search", params=asked)
        assert (of_pyserini.status_code, of_pyserini.json()) == (422, answer.json())
    assert answer.status_code == 422 and word in answer.json()["detail"]


@pytest.mark.parametrize("content", [b'{"query": "a"}', b""])
def test_what_is_not_json_is_told_to_be(server, content):
    answer = server.client.post("/search", content=content, headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422 and "Content-Type: application/json" in answer.json()["detail"]


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
