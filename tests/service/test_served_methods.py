"""A method that a request asks for is that of the command line: its signals, its settings, its failures."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tour_pyserini import TourConfig, TourError
from tour_pyserini.core.ranking import strictly_decreasing
from tour_pyserini.encoders.loading import load_document_encoder
from tour_pyserini.errors import RequestError
from tour_pyserini.pipeline import IndexRequest, Opener, SearchRequest, build_index, engine_opening, search
from tour_pyserini.service import collection as collection_module
from tour_pyserini.service.app import new_app
from tour_pyserini.service.collection import Collection, OneAtATime
from tour_pyserini.service.serve_request import ServeRequest
from tour_pyserini.stores import docids
from tour_pyserini.stores.vectors import EncodedCorpus

COLOURS = ("red", "green", "blue", "white", "black", "brown", "pink")
METHODS = ("anchored", "dense", "rerank", "hard")


@pytest.fixture(scope="module")
def words(small, tmp_path_factory):
    """Passages with BM25 beside their vectors; letters are for the encoder. `options` search or serve them."""
    folder = tmp_path_factory.mktemp("words")
    texts = {docid: f"{text} {COLOURS[int(docid[1:]) % 7]}" for docid, text in small.texts.items()}
    lines = [json.dumps({"_id": docid, "title": "", "text": text}) for docid, text in texts.items()]
    (folder / "words.jsonl").write_text("\n".join(lines))
    queries = {q_id: f"{text} {COLOURS[i % 5]}" for i, (q_id, text) in enumerate(list(small.queries.items())[:5])}
    (folder / "topics.tsv").write_text("".join(f"{q_id}\t{text}\n" for q_id, text in queries.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOUR_PYSERINI_CACHE", str(small.cache))
        request = {"corpus": folder / "words.jsonl", "index": folder / "words", "encoder": small.folder / "encoder"}
        build_index(IndexRequest(**request, bm25=True))
    models = {"reranker": small.folder / "reranker", "reranker_threads": 1, "no_cache": True}
    options = {"index": folder / "words", "corpus": folder / "words.jsonl", **models}
    return SimpleNamespace(options=options, topics=folder / "topics.tsv", queries=queries)


@pytest.fixture(scope="module")
def served(words):
    return Collection(ServeRequest(**words.options, config=TourConfig(depth=5)))


def client_of(collection):
    return TestClient(new_app(collection), base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.mark.parametrize("own", ["anchored", "dense"])
def test_each_method_has_the_signals_that_it_has_on_the_command_line(words, tmp_path, own):
    served = Collection(ServeRequest(**words.options, config=TourConfig(own, depth=5)))
    opener, hybrid = Opener(), search_lists(words, tmp_path, TourConfig("dense"), sparse="index")
    for method in METHODS:
        config = TourConfig(method, depth=5)
        wanted = search_lists(words, tmp_path, config, opener=opener)
        found = served.engine(config).batch_search(list(words.queries.values()), list(words.queries), k=20)
        assert {q_id: as_lines(hits) for q_id, hits in found.items()} == wanted, method
        assert (wanted != hybrid) or method != "dense"  # BM25 would make a difference


def search_lists(words, folder, config, *, opener=None, **options):
    output = folder / "run.trec"
    request = SearchRequest(**words.options, topics=words.topics, output=output, hits=20, config=config, **options)
    search(request, opener=opener or Opener())
    lists = {}
    for line in output.read_text().splitlines():
        q_id, _, docid, _, score, _ = line.split()
        lists.setdefault(q_id, []).append(f"{docid} {score}")
    return lists


def as_lines(hits):
    scores = strictly_decreasing(np.array([hit.score for hit in hits]))
    return [f"{hit.docid} {score:.6f}" for hit, score in zip(hits, scores, strict=True)]


def test_a_signal_is_opened_once(served):
    engines = [served.engine(TourConfig(depth=depth)) for depth in (3, 4)]
    first, second = (engine._optimiser.retrieval._signals for engine in engines)
    assert len(first) == 1 and first[0] is second[0]


@pytest.mark.parametrize("vectors", ["folder", "encode"])
def test_what_all_settings_need_is_opened_once(words, monkeypatch, vectors):
    opened = []

    def counted(what, make):
        return lambda *arguments, **options: opened.append(what) or make(*arguments, **options)

    monkeypatch.setattr(EncodedCorpus, "open", counted("vectors", EncodedCorpus.open))
    monkeypatch.setattr(engine_opening, "load_document_encoder", counted("encoder", load_document_encoder))
    monkeypatch.setattr(docids, "_hashes", counted("positions", docids._hashes))
    chosen = words.options["index"] if vectors == "folder" else "encode"
    served = Collection(ServeRequest(**words.options, vectors=chosen, config=TourConfig(depth=5)))
    engines = [served.engine(TourConfig(method, depth=depth)) for method in ("anchored", "hard") for depth in (3, 4)]
    assert [bool(engine.search("a b", k=3)) for engine in engines] == [True] * 4
    assert sorted(opened) == sorted(["positions", "vectors" if vectors == "folder" else "encoder"])


@pytest.mark.parametrize(
    ("method", "settings", "words_of_it"),
    [
        ("anchored", {"score_weight": 0.9}, "--score-weight does not count for the method anchored"),
        ("anchored", {"belief": 0.9}, None),
        ("dense", {"signal_weight": 0.9}, "--signal-weight changes nothing"),
    ],
)
def test_settings_that_do_not_count_are_refused(served, method, settings, words_of_it):
    answer = client_of(served).post("/search", json={"query": "a b", "method": method, "settings": settings})
    if words_of_it is None:
        assert answer.status_code == 200
    else:
        detail = answer.json()["detail"]
        assert answer.status_code == 422 and words_of_it in detail and "/" not in detail


def test_the_services_own_settings_do_not_stand_in_the_way_of_other_methods(words):
    served = Collection(ServeRequest(**words.options, config=TourConfig(depth=5, belief=0.9)))
    served.check_settings({"depth"}, TourConfig(depth=5, belief=0.9).replace(method="dense"))
    with pytest.raises(RequestError, match="score-weight"):
        served.check_settings({"score_weight"}, TourConfig(depth=5))


def test_the_encoder_of_a_prebuilt_index_is_wrapped_once(served, monkeypatch):
    searcher = served.engine(served.request.config).searcher  # Pyserini's searcher is one object for all settings

    def same_searcher(*_, **__):
        return SimpleNamespace(searcher=searcher)

    monkeypatch.setattr(collection_module, "tour_engine", same_searcher)
    for depth in range(6, 12):
        served.engine(TourConfig("dense", depth=depth))
    assert isinstance(searcher.query_encoder, OneAtATime)
    assert not isinstance(vars(searcher.query_encoder)["_encoder"], OneAtATime)
    served._engines.clear()


SECRET = "cannot read /srv/secret/corpus.jsonl at 10.0.0.7"


def fail(*_, **__):
    raise TourError(SECRET)


def test_what_the_request_is_not_to_blame_for_is_told_to_the_log_only(served, monkeypatch, caplog):
    client = client_of(served)
    monkeypatch.setattr(served, "text", fail)
    with caplog.at_level(logging.WARNING):
        answers = [
            client.post("/search", json={"query": "a b"}),
            client.get("/documents/d1"),
            client.get("/v1/indexes/words/documents/d1"),
        ]
    assert [answer.status_code for answer in answers] == [500] * 3
    assert {answer.json()["detail"] for answer in answers} == {"the service has failed; its log says why."}
    assert caplog.text.count(f"TourError: {SECRET}") == 3
    stream = client.get("/search/stream", params={"query": "a b"}).text
    assert "event: error" in stream and "secret" not in stream


def test_settings_that_the_service_cannot_search_with(served, monkeypatch, caplog):
    client = client_of(served)
    monkeypatch.setattr(collection_module, "tour_engine", fail)
    answer = client.post("/search", json={"query": "a b", "method": "soft"})
    assert answer.status_code == 422 and "cannot search with the method soft" in answer.json()["detail"]
    assert SECRET in caplog.text and "secret" not in answer.text


def test_a_step_that_is_too_large_is_the_requests_fault(served, words):
    body = {"query": list(words.queries.values()), "method": "hard", "settings": {"learning_rate": 1e38}}
    answer = client_of(served).post("/search", json=body)
    assert answer.status_code == 422 and "diverged" in answer.json()["detail"]
