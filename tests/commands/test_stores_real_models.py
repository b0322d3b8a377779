"""TouR on vector stores with the default models, on real texts: the runs are those of a flat FAISS index."""

import pytest
from pgvector_server import postgres

from tour_pyserini import TourConfig
from tour_pyserini.data import demo_collection
from tour_pyserini.index import main as index
from tour_pyserini.search import main as search

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
