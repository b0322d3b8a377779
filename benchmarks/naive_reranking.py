"""A user's own re-ranking script: Pyserini's FaissSearcher, then CrossEncoder.predict in torch on the first 40 hits."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tour_pyserini import FaissSearcher, load_query_encoder
from tour_pyserini.support.files import atomic_write

DEPTH = 40


def main(argv: Sequence[str] | None = None) -> None:
    """Search and re-rank, question by question, and write a run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.naive_reranking", description=__doc__)
    for flag in ("--topics", "--index", "--corpus", "--encoder", "--model", "--output"):
        parser.add_argument(flag, required=True)
    args = parser.parse_args(argv)
    from sentence_transformers import CrossEncoder

    searcher = FaissSearcher(args.index, load_query_encoder(args.encoder))
    passages = {document["_id"]: f"{document['title']} {document['text']}" for document in _records(args.corpus)}
    model = CrossEncoder(args.model, device="cpu")
    with atomic_write(args.output) as run:
        for question in _records(args.topics):
            hits = searcher.search(question["text"], k=DEPTH)
            scores = model.predict([(question["text"], passages[hit.docid]) for hit in hits], show_progress_bar=False)
            for rank, position in enumerate(np.argsort(-scores, kind="stable"), start=1):
                run.write(f"{question['_id']} Q0 {hits[position].docid} {rank} {scores[position]:.9f} naive\n")


def _records(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
