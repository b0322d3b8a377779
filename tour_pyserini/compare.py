"""Measure runs side by side with ir-measures, and show what each cost."""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.arguments import Help
from tour_pyserini.command import run
from tour_pyserini.evaluation.comparison import compare
from tour_pyserini.evaluation.table import FORMATS, cells

EXAMPLE = "example:\n  python -m tour_pyserini.compare qrels/demo.trec runs/demo.*.trec --measures nDCG@10 R@100"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.compare", description=__doc__, epilog=EXAMPLE, formatter_class=Help
    )
    parser.add_argument("qrels", help="judgements: TREC or BEIR")
    parser.add_argument("runs", nargs="+", help="TREC runs; the record beside a run gives its costs")
    parser.add_argument("--measures", nargs="+", default=["nDCG@10", "R@100"], help="names of ir-measures")
    parser.add_argument("--format", choices=list(FORMATS), default="text", help="how the table is written")
    args = parser.parse_args(argv)
    rows = compare(args.qrels, args.runs, args.measures)
    sys.stdout.write(FORMATS[args.format](cells(rows)) + "\n")


if __name__ == "__main__":
    run(main)
