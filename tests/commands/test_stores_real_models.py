"""TouR on vector stores with the default models, on real texts: the runs are those of a flat FAISS index."""

import json
import subprocess
import sys
from itertools import groupby

import numpy as np
import pytest
from pgvector_server import postgres

from tour_pyserini import TourConfig, TourSearcher, load_query_encoder
from tour_pyserini.data import demo_collection
from tour_pyserini.data.texts import open_texts
from tour_pyserini.index import main as index
from tour_pyserini.rerankers import CachedReranker, load_reranker_later
from tour_pyserini.search import main as search
from tour_pyserini.searchers.searched_index import open_index
from tour_pyserini.stores.store import as_store

pytestmark = pytest.mark.slow

ADDRESSES = {
    **{"milvus": "milvus:{}/lite.db?collection=C", "qdrant": "qdrant:{}/points?collection=C"},
    "pgvector": "{}#C",
}
METHODS = {
    "dense": TourConfig("dense"),
    "hard": TourConfig("hard", depth=5, iterations=2),
    "tour": TourConfig("tour", depth=5, budget=10),
}
HITS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The embedded collection with eight questions, its flat index, the runs on it, and their score cache."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "corpus.jsonl").write_text(demo_collection.CORPUS.read_text())
    topics = demo_collection.QUERIES.read_text().splitlines(keepends=True)[:8]
    (folder / "topics.jsonl").write_text("".join(topics))
    index(["--corpus", f"{folder}/corpus.jsonl", "--index", f"{folder}/index"])
    for method in METHODS:
        search(flags(folder, f"{folder}/index", method, f"flat.{method}", "--corpus", f"{folder}/corpus.jsonl"))
    return folder


def flags(folder, where, method, name, *more):
    config = METHODS[method]
    shared = [word for name, value in config.changed().items() for word in (f"--{name}", str(value))]
    return [
        *("--topics", f"{folder}/topics.jsonl", "--index", where, "--hits", str(HITS), "--method", method, *shared),
        *("--cache", f"{folder}/scores.sqlite", "--output", f"{folder}/{name}.trec", *more),
    ]


@pytest.mark.parametrize("engine", ADDRESSES)
def test_runs_on_an_exact_collection_are_those_on_a_flat_index(folder, engine):
    address = ADDRESSES[engine].format(postgres() if engine == "pgvector" else folder)
    index(["--corpus", f"{folder}/corpus.jsonl", "--index", address, "--vectors", f"{folder}/index"])
    for method in METHODS:
        search(flags(folder, address, method, f"{engine}.{method}"))
        assert (folder / f"{engine}.{method}.trec").read_bytes() == (folder / f"flat.{method}.trec").read_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_lists_on_a_matrix_are_those_on_a_flat_index(folder, method):
    opened = open_index(folder / "index")
    store, docids = as_store(opened.index), list(opened.docids)
    vectors = store.fetch(np.arange(store.size))
    scores = CachedReranker(load_reranker_later("default"), folder / "scores.sqlite")
    texts, encoder = open_texts(folder / "corpus.jsonl"), load_query_encoder("default")
    matrix = TourSearcher.from_vectors(vectors, texts, encoder, scores, METHODS[method], docids=docids)
    topics = [json.loads(line) for line in (folder / "topics.jsonl").read_text().splitlines()]
    found = matrix.batch_search([topic["text"] for topic in topics], [topic["_id"] for topic in topics], k=HITS)
    lines = [line.split() for line in (folder / f"flat.{method}.trec").read_text().splitlines()]
    expected = {topic: [(line[2], float(line[4])) for line in group] for topic, group in groupby(lines, lambda x: x[0])}
    assert found.keys() == expected.keys() and len(expected) == 8
    for topic, hits in found.items():
        assert [hit.docid for hit in hits] == [docid for docid, _ in expected[topic]]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected[topic]], abs=1e-5)


def test_the_commands_as_processes_of_their_own(folder):
    """Loaded by one process, searched by another, which reads passages from the collection."""
    address = f"milvus:{folder}/other.db?collection=C"
    loaded = ["--corpus", f"{folder}/corpus.jsonl", "--index", address, "--vectors", f"{folder}/index"]
    for module, words in (("index", loaded), ("search", flags(folder, address, "hard", "process"))):
        subprocess.run([sys.executable, "-m", f"tour_pyserini.{module}", *words], check=True)
    assert (folder / "process.trec").read_bytes() == (folder / "flat.hard.trec").read_bytes()
