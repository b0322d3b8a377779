"""A small experiment on disk: 40 passages, 6 topics, an encoder and a re-ranker of one layer each."""

import json

import numpy as np
import pytest
from small_experiment import Small, definition
from tiny_encoder import declare_pooling

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders `encoder` and `reranker`."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models")
    for name, kind, labels in (("encoder", BertModel, 2), ("reranker", BertForSequenceClassification, 1)):
        torch.manual_seed(7)
        kind(BertConfig(vocab_size=len(WORDS), num_labels=labels, **SIZES)).save_pretrained(folder / name)
        (folder / name / "vocab.txt").write_text("\n".join(WORDS))
        BertTokenizerFast(vocab=str(folder / name / "vocab.txt")).save_pretrained(folder / name)
    declare_pooling(folder / "encoder")
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
