"""A small collection on disk with tiny real models, and services of it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from running_server import running_server
from running_service import running_service
from tiny_encoder import WORDS, save_encoder

from tour_pyserini.index import IndexRequest, build_index

COLOURS = ("red", "green", "blue", "white", "black", "brown", "pink")


def save_cross_encoder(folder):
    """A cross-encoder of two layers with random weights, which knows ten letters as words."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(11)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(WORDS), num_labels=1, initializer_range=0.5, **sizes)
    BertForSequenceClassification(config).eval().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """An index of 60 passages with a tiny encoder, BM25 and a tiny cross-encoder; `flags` serve or search it.

    Letters are for the models, which know no other words, and colours are for BM25, which reads no letters.
    """
    folder = tmp_path_factory.mktemp("served")
    random = np.random.default_rng(3)
    rows = random.choice(list("abcdefghij"), size=(60, 12))
    letters = [f"{' '.join(row)} {COLOURS[i % 7]}" for i, row in enumerate(rows)]
    lines = [{"_id": f"d{i}", "title": text[:3], "text": text[4:]} for i, text in enumerate(letters)]
    (folder / "letters.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    queries = {f"q{i}": f"{text[:9]} {COLOURS[i % 5]}" for i, text in enumerate(letters[:12])}
    (folder / "topics.tsv").write_text("".join(f"{q_id}\t{text}\n" for q_id, text in queries.items()))
    for name in ("encoder", "reranker"):
        (folder / name).mkdir()
    encoder, reranker = save_encoder(folder / "encoder"), save_cross_encoder(folder / "reranker")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOUR_PYSERINI_CACHE", str(folder / "cache"))
        request = {"corpus": folder / "letters.jsonl", "index": folder / "letters", "encoder": encoder}
        build_index(IndexRequest(**request, bm25=True))
    index = ("--index", folder / "letters", "--corpus", folder / "letters.jsonl", "--depth", "5")
    return SimpleNamespace(
        folder=folder,
        index=index,
        flags=(*index, "--reranker", reranker, "--reranker-threads", "1"),
        queries=queries,
        texts={line["_id"]: f"{line['title']} {line['text']}" for line in lines},
        cache=folder / "cache",
    )


@pytest.fixture(scope="session")
def server(small):
    """The small collection, served with tiny real models by a process that may open 256 descriptors."""
    with running_server(*small.flags, cache=small.cache, descriptors=256) as running:
        yield running


@pytest.fixture(scope="session")
def slow_reranker():
    """A re-ranking service, one of whose paths takes 50 ms for an answer and 8 ms more for each passage."""
    with running_service() as running:
        yield running


@pytest.fixture(scope="session")
def slow_flags(small, slow_reranker):
    """Flags of a service whose labels come from the slow one, one at a time."""
    return (*small.index, "--reranker", slow_reranker.url("slower/tei/rerank"), "--reranker-threads", "1")
