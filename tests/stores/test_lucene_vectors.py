"""Lucene's indexes of vectors, built by Anserini: the lists of a flat FAISS index, with TouR too; learnt weights."""

import json
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pytest
from toy_collection import HashReranker, TableEncoder, unit

from tour_pyserini import TourConfig, TourSearcher, open_index
from tour_pyserini.encoders.query_vectors import write_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.search import main
from tour_pyserini.searchers.searched_index import SearchedIndex
from tour_pyserini.stores.lucene_vectors import LuceneVectors
from tour_pyserini.stores.signals import open_signal
from tour_pyserini.stores.store import as_store
from tour_pyserini.support.pyserini import ensure_java

SIZE, D = 500, 24
QUANTIZED = "-quantize.int8" if version("pyserini").startswith("1.") else "-quantize.sqv"  # Anserini's name of it
RANDOM = np.random.default_rng(0)
VECTORS = unit(RANDOM, SIZE, D)
QUERIES = (unit(RANDOM, 20, D) * RANDOM.uniform(0.1, 30, size=(20, 1))).astype(np.float32)
DOCIDS = [f"d{i}" for i in range(SIZE)]
TEXTS = {docid: f"passage {docid}" for docid in DOCIDS}


def build(folder, indexer, collection, *more):
    """Anserini's indexer on JSON lines in `folder / "in"`."""
    ensure_java()
    from jnius import autoclass

    words = ["-collection", collection, "-input", str(folder / "in"), "-index", str(folder / "index"), "-quiet"]
    autoclass(f"io.anserini.index.{indexer}").main([*words, *more])
    return folder / "index"


@pytest.fixture(scope="session")
def indexes(tmp_path_factory):
    """Folders of a flat index, one with two segments, one with a graph, and two with 8-bit codes."""
    made = {}
    for name, kind, more in (
        ("flat", "Flat", ("-threads", "1")),
        ("segments", "Flat", ("-threads", "2")),
        ("hnsw", "Hnsw", ("-threads", "1", "-M", "8", "-efC", "40")),
        ("flat8", "Flat", ("-threads", "1", QUANTIZED)),
        ("hnsw8", "Hnsw", ("-threads", "1", "-M", "8", "-efC", "40", QUANTIZED)),
    ):
        folder = tmp_path_factory.mktemp(name)
        (folder / "in").mkdir()
        for part in range(2):
            rows = range(part, SIZE, 2)
            lines = (json.dumps({"docid": DOCIDS[i], "contents": "", "vector": VECTORS[i].tolist()}) for i in rows)
            (folder / "in" / f"{part}.jsonl").write_text("\n".join(lines))
        generator = ("-generator", "DenseVectorDocumentGenerator")
        made[name] = build(folder, f"Index{kind}DenseVectors", "JsonDenseVectorCollection", *generator, *more)
    return made


@pytest.fixture(scope="session")
def flat():
    return SearchedIndex(as_store(VECTORS), DOCIDS, TableEncoder({f"q{i}": query for i, query in enumerate(QUERIES)}))


def names(store, hits):
    return [[store.docids[id_] for id_ in ids] for ids in hits.ids.tolist()]


def recall(store, hits, truth, expected):
    """The share of the expected hits that are found."""
    pairs = zip(names(store, hits), names(truth, expected), strict=True)
    return np.mean([len({*found} & {*wanted}) / len(wanted) for found, wanted in pairs])


@pytest.mark.parametrize(("name", "same"), [("flat", 1), ("segments", 1), ("flat8", 0.95)])
def test_a_flat_index_gives_the_lists_of_faiss(indexes, flat, name, same):
    store, expected = LuceneVectors.open(indexes[name]), flat.index.search(QUERIES, 30)
    hits = store.search(QUERIES, 30)
    assert recall(store, hits, flat, expected) >= same
    if same == 1:
        assert names(store, hits) == names(flat, expected)
        assert hits.similarities == pytest.approx(expected.similarities, abs=1e-5, rel=1e-5)
    ids = np.array([7, 3, 7, SIZE - 1, 0])
    assert np.array_equal(store.fetch(ids), VECTORS[[int(store.docids[i][1:]) for i in ids]])
    assert store.fetch(ids[:0]).shape == (0, D)
    assert (store.dimension, store.size, store.exact) == (D, SIZE, True)
    assert sorted(store.docids) == sorted(DOCIDS) and store.docids[-1] == [*store.docids][SIZE - 1]


@pytest.mark.parametrize("name", ["hnsw", "hnsw8"])
def test_a_graph_finds_most_with_exact_similarities(indexes, flat, name):
    expected, found = flat.index.search(QUERIES, 10), {}
    for effort in (10, 200):
        store = LuceneVectors.open(indexes[name], ef_search=effort)
        hits = store.search(QUERIES, 10)
        found[effort] = recall(store, hits, flat, expected)
        vectors = store.fetch(hits.ids.reshape(-1)).reshape(*hits.ids.shape, D)
        assert hits.similarities == pytest.approx(np.einsum("nkd,nd->nk", vectors, QUERIES), abs=1e-4)
    assert found[10] <= found[200] and found[200] > 0.95


@pytest.mark.parametrize("method", ["dense", "tour", "hard"])
def test_tour_over_lucene_is_tour_over_faiss(indexes, flat, method):
    queries, config = [f"q{i}" for i in range(20)], TourConfig(method)
    lucene = open_index(indexes["flat"], flat.query_encoder)
    runs = [
        TourSearcher(each, HashReranker(), TEXTS, config).batch_run(queries, queries, 20) for each in (flat, lucene)
    ]
    assert runs[0][0] == pytest.approx(runs[1][0], abs=1e-5)
    for query in queries:
        ours, theirs = runs[1][1][query], runs[0][1][query]
        assert [hit.docid for hit in ours] == [hit.docid for hit in theirs]
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-3)
    part = TourSearcher(lucene, HashReranker(), TEXTS, config).only(["d3"])
    assert [part.finds(docid) for docid in ("d3", "d4", "unknown")] == [True, False, False]


def test_pyserinis_searchers_are_searched(indexes, flat):
    ensure_java()
    from pyserini.search.lucene import LuceneFlatDenseSearcher, LuceneHnswDenseSearcher

    config = TourConfig("dense")
    graph = LuceneHnswDenseSearcher(str(indexes["hnsw"]), ef_search=200)
    assert TourSearcher(graph, config=config).index_record["store"]["efSearch"] == 200
    searcher = LuceneFlatDenseSearcher(str(indexes["flat"]))
    tour = TourSearcher(searcher, HashReranker(), TEXTS)
    unit_query = QUERIES[0] / np.linalg.norm(QUERIES[0])
    found = [hit.docid for hit in tour.search(unit_query, 5)]
    # A vector goes into Pyserini's own searcher too: as the text of a query.
    assert found == [hit.docid for hit in searcher.search(json.dumps(unit_query.tolist()), 5)]
    with pytest.raises(TourError, match="without a query encoder"):
        tour.search("q0", 5)
    java = SimpleNamespace(encode=lambda text: unit_query.tolist())
    searcher.searcher = SimpleNamespace(reader=searcher.searcher.reader, encoder=java)
    assert [hit.docid for hit in TourSearcher(searcher, config=config).search("q0", 5)] == found


def test_the_command_searches_lucene(indexes, flat, tmp_path):
    topics = tmp_path / "topics.tsv"
    topics.write_text("q0\tq0\nq1\tq1\n")
    write_encoded_queries(tmp_path / "queries", ["q0", "q1"], ["q0", "q1"], QUERIES[:2])

    def run(index, *more):
        out = tmp_path / "run.trec"
        words = ["--topics", topics, "--index", index, "--encoded-queries", tmp_path / "queries", "--output", out]
        main([str(word) for word in (*words, "--method", "dense", "--hits", 5, *more)])
        return out.read_text().split()[2::6]

    expected = flat.index.search(QUERIES[:2], 5).ids.reshape(-1)
    assert run(indexes["flat"]) == [DOCIDS[i] for i in expected]
    assert run(indexes["hnsw"], "--ef-search", 300) == run(indexes["flat"])
    record = json.loads((tmp_path / "run.trec.json").read_text())
    assert "Lucene" in json.dumps(record)
    for index, more, word in (
        ("flat", ["--ef-search", 9], "--ef-search is for HNSW"),
        ("hnsw", ["--nprobe", 9], "--nprobe is for inverted files"),
    ):
        with pytest.raises(TourError, match=word):
            run(indexes[index], *more)


WEIGHTS = {"a": {"sea": 3, "ship": 1}, "b": {"sea": 1, "king": 5}, "c": {"king": 2}}


def test_learnt_weights_of_words_are_a_signal(tmp_path):
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": docid, "contents": "", "vector": words}) for docid, words in WEIGHTS.items()]
    (tmp_path / "in" / "docs.jsonl").write_text("\n".join(lines))
    generator = ("-generator", "DefaultLuceneDocumentGenerator", "-threads", "1")
    folder = build(tmp_path, "IndexCollection", "JsonVectorCollection", *generator, "-impact", "-pretokenized")
    encoded = tmp_path / "queries.jsonl"
    lines = [json.dumps({"contents": "royal sea", "vector": {"sea": 2, "king": 3}})]
    encoded.write_text("\n".join([*lines, json.dumps({"contents": "sky", "vector": {"sky": 1}})]))
    signal = open_signal(f"impact:{folder}?encoder={encoded}")
    docids, scores = signal(["royal sea", "sky"], 10)
    assert docids[0][0] == "b" and docids[1] == []
    assert dict(zip(docids[0], scores[0], strict=True)) == pytest.approx({"a": 6, "b": 17, "c": 6})
    with pytest.raises(TourError, match=r"without float vectors.*--sparse"):
        open_index(folder)
    for spec, word in (
        (f"impact:{folder}", r"\?encoder="),
        (f"impact:{tmp_path}/no?encoder=splade", "no such folder"),
        (f"impact:{folder}?encoder=bert", "unicoil, splade"),
    ):
        with pytest.raises(TourError, match=word):
            open_signal(spec)
