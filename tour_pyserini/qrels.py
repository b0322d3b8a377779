"""Convert judgements (BEIR or TREC) to TREC qrels, which ir_measures and trec_eval read."""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import Help
from tour_pyserini.pipeline.converting import convert_qrels

EXAMPLE = """example:
  python -m tour_pyserini.qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  ir_measures qrels/scifact.trec runs/scifact.hard.trec nDCG@10 R@100"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.qrels", description=__doc__, epilog=EXAMPLE, formatter_class=Help
    )
    parser.add_argument("--input", required=True, metavar="FILE", help="judgements: a BEIR .tsv file or TREC qrels")
    parser.add_argument("--output", required=True, metavar="FILE", help="the TREC qrels to write")
    args = parser.parse_args(argv)
    done = convert_qrels(args.input, args.output)
    sys.stderr.write(f"{done.output}: {done.judgements} judgements of {done.queries} queries\n")


if __name__ == "__main__":
    run(main)
