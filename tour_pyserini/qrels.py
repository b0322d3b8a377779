# PYTHON_ARGCOMPLETE_OK
"""Convert judgements (BEIR or TREC) to TREC qrels.

ir_measures and trec_eval read TREC qrels.
"""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.data.qrels_file import read_qrels, write_qrels

EXAMPLE = """example:
  python -m tour_pyserini.qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  ir_measures qrels/scifact.trec runs/scifact.hard.trec nDCG@10 R@100"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser("qrels", description=__doc__, epilog=EXAMPLE)
    parser.add_argument("--input", required=True, help="judgements: BEIR's .tsv, or TREC's")
    parser.add_argument("--output", required=True, help="the TREC file to write")
    args = parser.parse_args(argv)
    qrels = read_qrels(args.input)
    write_qrels(qrels, args.output)
    sys.stderr.write(f"{args.output}: {len(qrels)} judgements of {len({q.query_id for q in qrels})} queries\n")


if __name__ == "__main__":
    run(main)
