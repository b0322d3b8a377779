# PYTHON_ARGCOMPLETE_OK
"""Join the shards of a search into one run."""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.pipeline.merging import MergeRequest, merge

DESCRIPTION = """\
Join the shards that `search --shard i/n` wrote into the run that one search of all topics would have written, with its
record, trace, predictions and query vectors where the shards have them. Their costs are added up."""

EXAMPLES = """examples:
  python -m tour_pyserini.merge runs/scifact.trec.shard-*-of-3
  python -m tour_pyserini.merge machine-1/run.shard-1-of-2 machine-2/run.shard-2-of-2 --output runs/all.trec"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    summary = merge(MergeRequest(shards=tuple(args.shards), output=args.output))
    sys.stderr.write(f"{', '.join(map(str, summary.written))}: {summary.costs}\n")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("merge", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("shards", nargs="+", metavar="SHARD", help="the run files of all shards, in any order")
    parser.add_argument("--output", metavar="RUN", help="the run file (default: as --output of the shards' search)")
    return parser


if __name__ == "__main__":
    run(main)
