import json

import pytest
from tiny_encoder import WORDS, save_encoder, save_reranker


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Collections in the layout of the real ones, and models of one layer."""
    folder = tmp_path_factory.mktemp("small")
    save_encoder(folder / "encoder")
    save_reranker(folder / "reranker")
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
