"""`search --reranker FOLDER` labels with each family of re-rankers as its reference does."""

import json
from types import SimpleNamespace

import faiss
import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

from reranker_families import FAMILIES, LENGTH, PAIRS
from toy_collection import unit

from tour_pyserini.encoders.query_vectors import write_encoded_queries
from tour_pyserini.rerankers import CachedReranker
from tour_pyserini.search import main


@pytest.fixture
def search(tmp_path, monkeypatch):
    """Searches a collection that has the passages of `PAIRS`, with their queries; returns the labels of `PAIRS`."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    queries, passages = zip(*PAIRS, strict=True)
    random = np.random.default_rng(0)
    index = faiss.IndexFlatIP(8)
    index.add(unit(random, len(passages), 8))
    (tmp_path / "index").mkdir()
    faiss.write_index(index, str(tmp_path / "index" / "index"))
    (tmp_path / "index" / "docid").write_text("".join(f"d{number}\n" for number in range(len(passages))))
    lines = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(passages)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    q_ids = [f"q{number}" for number in range(len(queries))]
    topics = [f"{q_id}\t{query}\n" for q_id, query in zip(q_ids, queries, strict=True)]
    (tmp_path / "topics.tsv").write_text("".join(topics))
    write_encoded_queries(tmp_path / "encoded", q_ids, list(queries), unit(random, len(queries), 8))

    def run(folder, *more):
        flags = {
            "topics": tmp_path / "topics.tsv",
            "index": tmp_path / "index",
            "corpus": tmp_path / "corpus.jsonl",
            "encoded-queries": tmp_path / "encoded",
            "output": tmp_path / "run.trec",
            "cache": tmp_path / "scores.sqlite",
            "method": "rerank",
            "depth": len(passages),
            "hits": len(passages),
            "reranker": folder,
            "reranker-max-length": LENGTH,
        }
        main([str(word) for name, value in flags.items() for word in (f"--{name}", value)] + list(more))
        fingerprint = json.loads((tmp_path / "run.trec.json").read_text())["models"]["reranker"]
        stored = SimpleNamespace(fingerprint=fingerprint, predict=lambda pairs: pytest.fail(f"not stored: {pairs}"))
        with CachedReranker(stored, tmp_path / "scores.sqlite") as cache:
            return cache.predict(PAIRS)

    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_labels_are_the_scores_of_the_reference(family, search, tmp_path):
    folder = tmp_path / FAMILIES[family].name
    folder.mkdir()
    FAMILIES[family].save(folder)
    expected = FAMILIES[family].scores(folder, LENGTH)
    np.testing.assert_allclose(search(folder), expected, rtol=1e-4, atol=1e-4)
