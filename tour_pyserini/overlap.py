# PYTHON_ARGCOMPLETE_OK
"""Put test questions into splits by overlap with training data.

A question's split says what it shares with the training questions. `compare --splits` measures each split.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.command import CommandParser, run
from tour_pyserini.data.topics import read_questions
from tour_pyserini.evaluation.answer_measures import overlap_splits
from tour_pyserini.support.files import atomic_write, check_output


class SplitSummary(NamedTuple):
    """The file that was written, its questions, the training questions, and the questions of each split."""

    output: Path
    questions: int
    train_questions: int
    counts: Mapping[str, int]


def split_by_overlap(topics: str, train: Sequence[str], output: str | os.PathLike[str]) -> SplitSummary:
    """Put test questions into splits by what they share with training questions (see `overlap_splits`).

    Args:
        topics: test questions with answers, in any format of topics.
        train: files of training questions with answers.
        output: a file of lines `qid<TAB>split`, for `CompareRequest(splits=...)`.
    """
    check_output(output, [topics, *train])
    train_questions = [question for path in train for question in read_questions(path)]
    splits = list(overlap_splits(read_questions(topics), train_questions))
    with atomic_write(output) as file:
        file.write("".join(f"{qid}\t{split}\n" for qid, split in splits))
    counts = Counter(split for _, split in splits)
    return SplitSummary(Path(output), len(splits), len(train_questions), dict(sorted(counts.items())))


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
