# PYTHON_ARGCOMPLETE_OK
"""Put test questions into splits by overlap with training data.

A question's split says what it shares with the training questions. `compare --splits` measures each split.
"""

import sys
from collections import Counter
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.data.topics import read_questions
from tour_pyserini.evaluation.overlap_splits import overlap_splits
from tour_pyserini.support.files import atomic_write, check_output

EXAMPLE = """example:
  python -m tour_pyserini.overlap --topics nq/test.jsonl --train nq/dev.jsonl --output nq.splits.tsv
  python -m tour_pyserini.compare qrels/nq.trec runs/nq.*.trec --splits nq.splits.tsv"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser("overlap", description=__doc__, epilog=EXAMPLE)
    parser.add_argument("--topics", required=True, help="test questions with answers, in any format of topics")
    parser.add_argument("--train", nargs="+", required=True, metavar="FILE", help="training questions, likewise")
    parser.add_argument("--output", required=True, metavar="FILE", help="lines `qid<TAB>split`")
    args = parser.parse_args(argv)
    check_output(args.output, [args.topics, *args.train])
    train = [question for path in args.train for question in read_questions(path)]
    splits = list(overlap_splits(read_questions(args.topics), train))
    with atomic_write(args.output) as file:
        file.write("".join(f"{qid}\t{split}\n" for qid, split in splits))
    counts = ", ".join(f"{count} {split}" for split, count in sorted(Counter(split for _, split in splits).items()))
    sys.stderr.write(f"{args.output}: {len(splits)} questions against {len(train)}: {counts}\n")


if __name__ == "__main__":
    run(main)
