"""Convert judgements (BEIR or TREC) to TREC qrels, which ir_measures and trec_eval read."""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import Help
from tour_pyserini.data.qrels_file import read_qrels, write_qrels

EXAMPLE = """example:
  python -m tour_pyserini.qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  ir_measures qrels/scifact.trec runs/scifact.hard.trec nDCG@10 R@100"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.qrels", description=__doc__, epilog=EXAMPLE, formatter_class=Help
    )
    parser.add_argument("--input", required=True, help="judgements: BEIR's .tsv, or TREC's")
    parser.add_argument("--output", required=True, help="the TREC file to write")
    args = parser.parse_args(argv)
    qrels = read_qrels(args.input)
    write_qrels(qrels, args.output)
    sys.stderr.write(f"{args.output}: {len(qrels)} judgements of {len({q.query_id for q in qrels})} queries\n")


if __name__ == "__main__":
    run(main)
