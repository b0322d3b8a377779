# PYTHON_ARGCOMPLETE_OK
"""Convert judgements (BEIR or TREC) to TREC qrels.

ir_measures and trec_eval read TREC qrels.
"""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.pipeline.converting import convert_qrels

EXAMPLE = """example:
  python -m tour_pyserini.qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  ir_measures qrels/scifact.trec runs/scifact.hard.trec nDCG@10 R@100"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser("qrels", description=__doc__, epilog=EXAMPLE)
    parser.add_argument("--input", required=True, metavar="FILE", help="judgements: a BEIR .tsv file or TREC qrels")
    parser.add_argument("--output", required=True, metavar="FILE", help="the TREC qrels to write")
    args = parser.parse_args(argv)
    done = convert_qrels(args.input, args.output)
    sys.stderr.write(f"{done.output}: {done.judgements} judgements of {done.queries} queries\n")


if __name__ == "__main__":
    run(main)
