"""Index the embedded collection, search it in six ways, measure, and show one question's path.

Everything is done with the commands a user has; runs go to runs/, judgements to qrels/.
"""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini import compare, qrels, search
from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import Help
from tour_pyserini.data.runs import read_qrels
from tour_pyserini.data.topics import read_topics
from tour_pyserini.demo import collection
from tour_pyserini.evaluation import query_path as paths

METHODS = ("dense", "rerank", "rocchio", "hard", "soft", "anchored")
QRELS = "qrels/demo.trec"
TRACE, PICTURE = "runs/demo.anchored.trace.jsonl", "runs/demo.path.png"
MEASURES = ("nDCG@10", "Success@1", "R@10", "R@100")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tour_pyserini.demo", description=__doc__, formatter_class=Help)
    parser.parse_args(argv)
    qrels.main(["--input", str(collection.QRELS), "--output", QRELS])
    runs = [f"runs/demo.{method}.trec" for method in METHODS]
    for method, output in zip(METHODS, runs, strict=True):
        trace = ["--trace", TRACE] if method == "anchored" else []
        search.main(["--topics", "demo", "--method", method, "--output", output, "--hits", "100", *trace])
    sys.stdout.write("\n")
    compare.main([QRELS, *runs, "--measures", *MEASURES])
    _show_path()


def _show_path() -> None:
    from tour_pyserini.data.texts import open_texts

    relevant: dict[str, set[str]] = {}
    for judgement in read_qrels(QRELS):
        relevant.setdefault(judgement.query_id, set()).add(judgement.doc_id)
    all_paths = paths.read_paths(TRACE)
    qid = paths.most_improved_query(all_paths, relevant)
    query = read_topics(collection.QUERIES).topics[qid]["title"]
    text = paths.as_text(all_paths[qid], query, open_texts(collection.CORPUS), relevant[qid])
    paths.draw(all_paths[qid], query, relevant[qid], PICTURE)
    sys.stdout.write(f"\nOne question's path (* judged relevant, + new):\n{text}\nAs a picture: {PICTURE}\n")


if __name__ == "__main__":
    run(main)
