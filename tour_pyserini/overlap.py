# PYTHON_ARGCOMPLETE_OK
"""Put test questions into splits by overlap with training data.

A question's split says what it shares with the training questions. `compare --splits` measures each split.
"""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.pipeline.splitting import split_by_overlap

EXAMPLE = """example:
  python -m tour_pyserini.overlap --topics nq/test.jsonl --train nq/dev.jsonl --output nq.splits.tsv
  python -m tour_pyserini.compare qrels/nq.trec runs/nq.*.trec --splits nq.splits.tsv"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    done = split_by_overlap(args.topics, args.train, args.output)
    counts = ", ".join(f"{count} {split}" for split, count in done.counts.items())
    sys.stderr.write(
        f"{done.output}: {done.questions} questions compared with {done.train_questions} training questions: {counts}\n"
    )


def _parser() -> CommandParser:
    parser = CommandParser("overlap", description=__doc__, epilog=EXAMPLE)
    add = parser.add_argument
    add("--topics", required=True, help="test questions with answers, in any format of topics")
    add("--train", nargs="+", required=True, metavar="FILE", help="training questions with answers, in any format")
    add("--output", required=True, metavar="FILE", help="the file to write, with lines `qid<TAB>split`")
    return parser


if __name__ == "__main__":
    run(main)
