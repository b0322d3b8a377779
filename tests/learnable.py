"""A small collection whose labels an adapter can learn from: encoder, corpus, topics, and what labels them."""

import json

import numpy as np
from tiny_models import save_transformer

from tour_pyserini.core.config import TourConfig
from tour_pyserini.index import IndexRequest, build_index
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest


class HiddenReranker:
    """Scores by p . (q + H q): what an adapter can learn. `asked` counts the pairs that were scored."""

    def __init__(self, encoder, *, fingerprint="hidden"):
        from tour_pyserini import load_query_encoder

        self.encode = load_query_encoder(str(encoder), pooling="cls", l2_norm=True).encode_batch
        self.hidden = np.random.default_rng(2).normal(size=(32, 32)) / np.sqrt(32)
        self.fingerprint = fingerprint
        self.asked = 0

    def predict(self, pairs):
        self.asked += len(pairs)
        queries, passages = (np.asarray(self.encode(list(texts))) for texts in zip(*pairs, strict=True))
        return (passages * (queries + queries @ self.hidden.T)).sum(axis=1).astype(np.float64)


def write_learnable(folder, encoder):
    """An encoder, an index of 200 passages of letters, and topics: 200 to learn from, few of them, and 60 others."""
    save_transformer(encoder, "bert")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(3)
    letters = [" ".join(row) for row in random.choice(list("abcdefghijklmnop"), size=(460, 8))]
    lines = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(letters[:200])]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, part in (("train", letters[200:400]), ("few", letters[200:220]), ("test", letters[400:])):
        (folder / f"{name}.tsv").write_text("".join(f"q{i}\t{text[:15]}\n" for i, text in enumerate(part)))
    where = {"corpus": folder / "corpus.jsonl", "index": folder / "index"}
    build_index(IndexRequest(**where, encoder=encoder, pooling="cls", l2_norm=True))


def learnable_fields(folder, reranker, topics="train"):
    """The fields of requests that name the collection."""
    names = {"topics": f"{topics}.tsv", "index": "index", "corpus": "corpus.jsonl"}
    return {**{field: str(folder / name) for field, name in names.items()}, "reranker": reranker}


def buy_labels(folder, reranker, output, topics="train", **more):
    """Search with the topics, so that the score cache keeps ten labels of each."""
    config = TourConfig("rerank", depth=10)
    search(SearchRequest(**learnable_fields(folder, reranker, topics), config=config, output=str(output), **more))
