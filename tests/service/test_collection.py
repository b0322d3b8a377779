"""A method that a request asks for is that of the command line: its signals, its settings, its failures."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest

from tour_pyserini import TourConfig, TourError
from tour_pyserini.core.arrays import strictly_decreasing
from tour_pyserini.errors import RequestError
from tour_pyserini.index import IndexRequest, build_index
from tour_pyserini.opening import Opener
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.serving import ServeRequest

COLOURS = ("red", "green", "blue", "white", "black", "brown", "pink")
CONFIGS = {name: TourConfig(name, depth=5) for name in ("tour", "rerank", "hard")} | {"dense": TourConfig("dense")}


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
    return Collection(ServeRequest(**words.options, config=CONFIGS["dense"]))


def search_lists(words, folder, config, opener, **options):
    output = folder / "run.trec"
    request = SearchRequest(**words.options, topics=words.topics, output=output, hits=20, config=config, **options)
    search(request, opener=opener)
    lists = {}
    for line in output.read_text().splitlines():
        q_id, _, docid, _, score, _ = line.split()
        lists.setdefault(q_id, []).append(f"{docid} {score}")
    return lists


def as_lines(hits):
    scores = strictly_decreasing(np.array([hit.score for hit in hits]))
    return [f"{hit.docid} {score:.6f}" for hit, score in zip(hits, scores, strict=True)]


def test_all_methods_have_the_same_signals_and_the_lists_of_the_command_line(words, served, tmp_path):
    opener = Opener()
    alone = search_lists(words, tmp_path, CONFIGS["dense"], opener)
    for method, config in CONFIGS.items():
        wanted = search_lists(words, tmp_path, config, opener, sparse="index")
        found = served.searcher(config).batch_search(list(words.queries.values()), list(words.queries), k=20)
        assert {q_id: as_lines(hits) for q_id, hits in found.items()} == wanted, method
        assert (wanted != alone) or method != "dense"  # BM25 makes a difference


def test_settings_that_the_service_cannot_search_with(served, monkeypatch, caplog):
    def fail(*_, **__):
        raise TourError("cannot read /srv/secret/corpus.jsonl")

    monkeypatch.setattr(Opener, "searcher", fail)
    with caplog.at_level(logging.WARNING), pytest.raises(RequestError, match="cannot search with the method soft"):
        served.searcher(TourConfig("soft"))
    assert "/srv/secret" in caplog.text


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        ({"topics": "topics.tsv", "index": "nowhere", "corpus": "c"}, "topics.tsv"),
        ({"index": "nowhere"}, "corpus"),
        ({}, "--index"),
    ],
)
def test_what_cannot_be_served(request_, word):
    with pytest.raises(TourError, match=word):
        Collection(ServeRequest(**request_))
