"""Collections from the command line: index into vector databases, then search, against a flat FAISS index."""

import functools
import json

import pytest
from index_commands import flags, write_corpus
from pgvector_server import postgres

from tour_pyserini import index
from tour_pyserini.data.run_records import record_path
from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.search import main, search
from tour_pyserini.search_request import SearchRequest

ADDRESSES = {"milvus": "milvus:{}/lite.db?collection=C", "qdrant": "qdrant:{}/points?collection=C", "pgvector": "{}#C"}
ENGINES = ["milvus", "qdrant", pytest.param("pgvector", marks=pytest.mark.slow)]


class Letters:
    """Labels passages by how many letters of the query they have; a title counts twice."""

    name = fingerprint = "letters"

    def predict(self, pairs):
        assert all(isinstance(passage, Passage) for _, passage in pairs)
        return [sum(p.count(w) + p.parts[0].count(w) for w in q.split()) / 5 for q, p in pairs]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("collections")
    corpus = write_corpus(folder / "corpus.jsonl", 120)
    (folder / "topics.tsv").write_text("q1\ta b\nq2\tc d e\nq3\tj\n")
    index.main(flags(tiny, corpus, folder / "index"))
    return folder


@pytest.fixture(scope="module")
def collection(folder, tiny):
    """The address of a collection of an engine, which is filled the first time."""

    @functools.cache
    def address(engine):
        found = ADDRESSES[engine].format(postgres() if engine == "pgvector" else folder)
        bm25 = [] if engine == "pgvector" else ["--bm25"]
        index.main(flags(tiny, folder / "corpus.jsonl", found, *bm25))
        return found

    return address


def searched(folder, name, where, **options):
    output = folder / f"{name}.trec"
    names = {"topics": folder / "topics.tsv", "index": str(where), "output": output}
    search(SearchRequest(**names, hits=30, no_cache=True, **options))
    return output.read_bytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_are_those_of_a_flat_index_byte_for_byte(folder, collection, engine):
    address = collection(engine)
    corpus = str(folder / "corpus.jsonl")
    expected = searched(folder, "flat", folder / "index", corpus=corpus, reranker=Letters())
    assert searched(folder, "with-corpus", address, corpus=corpus, reranker=Letters()) == expected
    assert searched(folder, "own-texts", address, reranker=Letters()) == expected
    found = json.loads(record_path(folder / "own-texts.trec").read_text())["found"]["store"]
    assert found["engine"] == engine and found["exact"] and found["size"] == 120


def test_refusals(tiny, folder, collection):
    address, corpus = collection("qdrant"), folder / "corpus.jsonl"
    for more, message in {
        "--hnsw": "--hnsw is not for collections .* say kind=hnsw in its address",
        "--bm25 --fields text": "--bm25 of a collection reads title and text",
    }.items():
        with pytest.raises(TourError, match=message):
            index.main(flags(tiny, corpus, address, *more.split()))
    words = ["--topics", str(folder / "topics.tsv"), "--method", "dense", "--index", address]
    with pytest.raises(TourError, match="write ef=9 into the address"):
        main([*words, "--ef-search", "9"])


def test_a_collection_without_texts_needs_the_corpus(tiny, tmp_path):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 12)
    (tmp_path / "topics.tsv").write_text("q1\ta b\n")
    address = f"qdrant:{tmp_path}/points?collection=C&texts=no"
    index.main(flags(tiny, corpus, address))
    with pytest.raises(TourError, match="reads passages: give their texts"):
        searched(tmp_path, "run", address, reranker=Letters())
    assert searched(tmp_path, "run", address, corpus=str(corpus), reranker=Letters())
