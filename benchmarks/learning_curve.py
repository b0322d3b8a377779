"""Measure what `learn` gains with the number of labels seen: dense search with and without the adapter.

    python -m benchmarks.learning_curve --stream train.jsonl --test test.jsonl --qrels test.tsv \
        --index indexes/revdict --corpus corpus.jsonl --sizes 250 500 1000 2000 --work DIR

The labels of the stream must be in the score cache: search it first (`search --method rerank --depth 10`).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tour_pyserini.command import run
from tour_pyserini.core.config import TourConfig
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.evaluation.paired_tests import compare_with_baseline
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.learn import LearnRequest, LearnSummary, NoGain, learn
from tour_pyserini.opening import Opener
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest

MEASURES = ("nDCG@10", "R@100")


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table with a line for each size of the stream."""
    args = _parser().parse_args(argv)
    args.work.mkdir(parents=True, exist_ok=True)
    opener = Opener()
    stream = Path(args.stream)
    lines = stream.read_text(encoding="utf-8").splitlines(keepends=True)
    before = _dense(args, None, opener)
    head = ["queries seen", "labels seen", "learnt"]
    for name in MEASURES:
        head += [name, "with adapter", "p"]
    body = []
    for size in sorted(size for size in args.sizes if size <= len(lines)):
        part = args.work / f"first-{size}{stream.suffix}"
        part.write_text("".join(lines[:size]), encoding="utf-8")
        learnt = _learnt(args, part, opener)
        choice = learnt.choice
        told = f"rank {choice.rank}, ridge {choice.ridge:g}; held out {choice.before:.4f} {choice.gain:+.4f}"
        row = [str(size), str(learnt.labels)]
        if isinstance(learnt, NoGain):  # the search is that without an adapter
            body.append([*row, f"nothing ({told}, p {choice.p:.2f})", *["-"] * 3 * len(MEASURES)])
            continue
        row.append(told)
        first, after = compare(args.qrels, [before, _dense(args, part.with_suffix(".adapter"), opener)], MEASURES)
        for item in compare_with_baseline(first, [after]):
            row += [f"{first.means[item.measure]:.4f}", f"{after.means[item.measure]:.4f}", f"{item.p:.3f}"]
        body.append(row)
    sys.stdout.write(FORMATS["markdown"](Table([head, *body])) + "\n")


def _learnt(args: argparse.Namespace, topics: Path, opener: Opener) -> LearnSummary | NoGain:
    """What `learn` wrote beside the topics, or why it wrote nothing."""
    output = topics.with_suffix(".adapter")
    output.unlink(missing_ok=True)
    files = {"index": args.index, "corpus": args.corpus, "cache": args.cache}
    try:
        return learn(LearnRequest(topics=str(topics), output=str(output), depth=args.depth, **files), opener=opener)
    except NoGain as refused:
        return refused


def _dense(args: argparse.Namespace, adapter: Path | None, opener: Opener) -> Path:
    """The run of dense search."""
    output = args.work / f"{adapter.stem if adapter else 'dense'}.trec"
    request = SearchRequest(
        topics=args.test,
        qrels=args.qrels,
        index=args.index,
        corpus=args.corpus,
        adapter=str(adapter) if adapter else None,
        output=str(output),
        hits=100,
        cache=args.cache,
        config=TourConfig("dense"),
    )
    search(request, opener=opener)
    return output


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("stream", "test", "qrels", "index", "corpus"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for adapters and runs")
    parser.add_argument("--sizes", type=int, nargs="+", required=True, help="queries of the stream that are used")
    parser.add_argument("--cache", help="the score cache")
    parser.add_argument("--depth", type=int, default=200, help="as in `learn`")
    return parser


if __name__ == "__main__":
    run(main)
