import json

import numpy as np
import pytest
from tiny_encoder import save_encoder
from toy_collection import ToyCollection

from tour_pyserini.encoders import encoder as encoder_module
from tour_pyserini.encoders.query_vectors import write_encoded_queries


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with an encoder of one layer and random weights."""
    return save_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def encoded(monkeypatch):
    """How many documents were encoded at a time."""
    encoded, encode = [], encoder_module.encode_documents
    monkeypatch.setattr(
        encoder_module, "encode_documents", lambda *a, **k: encoded.append(len(a[1])) or encode(*a, **k)
    )
    return encoded


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """A temporary cache folder."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def saved(tmp_path, cache_folder):
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
