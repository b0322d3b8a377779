"""What the tests of the pipeline share: a collection on disk, a tiny encoder, a cache folder of their own."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_encoder import save_encoder
from toy_collection import HashReranker, ToyCollection

from tour_pyserini.encoders.query_vectors import write_encoded_queries
from tour_pyserini.index import IndexRequest, build_index


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """A temporary cache folder."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """The folder of an encoder of one layer."""
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def saved(tmp_path):
    """A toy collection, and the fields of a search request that name its files."""
    collection = ToyCollection(tmp_path)
    lines = [{"_id": docid, "title": "", "text": text} for docid, text in collection.texts.items()]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pairs = zip(collection.q_ids, collection.queries, strict=True)
    (tmp_path / "topics.tsv").write_text("".join(f"{q_id}\t{query}\n" for q_id, query in pairs))
    vectors = np.stack([collection.encoder.encode(query) for query in collection.queries])
    write_encoded_queries(tmp_path / "queries", collection.q_ids, collection.queries, vectors)
    return collection, {
        "topics": tmp_path / "topics.tsv",
        "index": collection.folder,
        "corpus": tmp_path / "corpus.jsonl",
        "encoded_queries": tmp_path / "queries",
    }


@pytest.fixture
def small_index(tmp_path, encoder):
    """An index of 40 passages with the tiny encoder; `reranker` is an object."""
    random = np.random.default_rng(3)
    letters = [" ".join(row) for row in random.choice(list("abcdefghij"), size=(40, 12))]
    lines = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(letters)]
    (tmp_path / "letters.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "letters.tsv").write_text("".join(f"q{i}\t{text[:7]}\n" for i, text in enumerate(letters[:9])))
    request = IndexRequest(corpus=tmp_path / "letters.jsonl", index=tmp_path / "letters", encoder=encoder)
    build_index(request)
    return SimpleNamespace(
        index=str(tmp_path / "letters"),
        corpus=str(tmp_path / "letters.jsonl"),
        topics=str(tmp_path / "letters.tsv"),
        reranker=HashReranker(),
    )
