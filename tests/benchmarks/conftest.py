import json

import pytest
from tiny_encoder import declare_pooling

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Collections in the layout of the real ones, and models of one layer."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("small")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(3)
    config = BertConfig(vocab_size=len(WORDS), num_labels=1, initializer_range=0.5, **SIZES)
    for name, kind in (("encoder", BertModel), ("reranker", BertForSequenceClassification)):
        kind(config).eval().save_pretrained(folder / name)
        BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder / name)
    declare_pooling(folder / "encoder")
    splits = [("nq-wiki", f"queries.{split}.jsonl", split) for split in ("nq-test", "nq-dev")]
    for name, queries, split in (*splits, ("scifact", "queries.jsonl", "test")):
        write_collection(folder / "collections" / name, queries, split)
    return folder


def write_collection(folder, queries, split):
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with open(folder / "corpus.jsonl", "w") as file:
        for number in range(60):
            text = " ".join(WORDS[5 + (number * step) % 10] for step in range(1, 40 + 3 * number))
            file.write(json.dumps({"_id": f"d{number}", "title": "a", "text": text}) + "\n")
    with open(folder / queries, "w") as file:
        for number in range(6):
            file.write(json.dumps({"_id": f"q{number}", "text": f"{WORDS[5 + number]} b", "answers": ["a"]}) + "\n")
    judged = "".join(f"q{number}\td{number}\t1\n" for number in range(6))
    (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
