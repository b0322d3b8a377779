# PYTHON_ARGCOMPLETE_OK
"""Convert judgements (BEIR or TREC) to TREC qrels.

ir_measures and trec_eval read TREC qrels.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.command import CommandParser, run
from tour_pyserini.data.judgements import read_qrels, write_qrels

EXAMPLE = """example:
  python -m tour_pyserini.qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  ir_measures qrels/scifact.trec runs/scifact.hard.trec nDCG@10 R@100"""


class QrelsSummary(NamedTuple):
    """What was written: the file, its judgements, and the queries that have judgements."""

    output: Path
    judgements: int
    queries: int


def convert_qrels(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> QrelsSummary:
    """Write judgements, in BEIR's or TREC's format, as TREC qrels."""
    qrels = read_qrels(input)
    write_qrels(qrels, output)
    return QrelsSummary(Path(output), len(qrels), len({qrel.query_id for qrel in qrels}))


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
