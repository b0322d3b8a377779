"""Splitting test questions by their overlap with training questions: from files to a file of splits."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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
