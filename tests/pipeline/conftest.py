"""What the tests of the pipeline share: a collection on disk, a tiny encoder, a cache folder of their own."""

import json

import numpy as np
import pytest
from tiny_encoder import save_encoder
from toy_collection import ToyCollection

from tour_pyserini.encoders.encoded_queries import write_encoded_queries


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
