"""A small experiment on disk: 40 passages, 6 topics, an encoder and a re-ranker of one layer each."""

import json

import numpy as np
import pytest
from small_experiment import Small, definition
from tiny_encoder import WORDS, save_encoder, save_reranker


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders `encoder` and `reranker`."""
    folder = tmp_path_factory.mktemp("models")
    save_encoder(folder / "encoder")
    save_reranker(folder / "reranker")
    return folder


@pytest.fixture
def small(tmp_path, models, monkeypatch):
    monkeypatch.setenv("MODELS", str(models))
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(3)
    letters = random.choice(WORDS[5:], size=(40, 12))
    records = [{"_id": f"d{i}", "title": "", "text": " ".join(row)} for i, row in enumerate(letters)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "topics.tsv").write_text("".join(f"q{i}\t{' '.join(letters[i][:4])}\n" for i in range(6)))
    judged = [f"q{i}\td{i + step}\t1\n" for i in range(6) for step in (0, 7)]
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged))
    small = Small(tmp_path)
    small.write(definition())
    return small
