"""Questions that have answers."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.topics.local import Topics, local_topics


class Question(NamedTuple):
    """A question's id, its text and its answers (for some collections regular expressions)."""

    qid: str
    text: str
    answers: Sequence[str]


def read_questions(spec: str | os.PathLike[str]) -> list[Question]:
    """Read questions and their answers in the order of their file, or of Pyserini where a name is given.

    Args:
        spec: what `read_topics` takes; for a file on this machine, Java is not started.

    Example:
        >>> read_questions("topics.dpr.nq.test.txt")[0]  # doctest: +SKIP
        Question(qid='0', text='who got the first nobel prize in physics', answers=['Wilhelm Conrad Röntgen'])
    """
    topics = local_topics(Path(spec))
    if topics is None:
        topics = _from_pyserini(spec)
    questions = []
    for qid, topic in topics.items():
        if not isinstance(topic.get("answers"), list):
            raise TourError(f"the query {str(qid)!r} of {spec} has no answers; give questions with answers.")
        questions.append(Question(str(qid), str(topic.get("title", "")), topic["answers"]))
    return questions


def _from_pyserini(spec: str | os.PathLike[str]) -> Topics:
    from tour_pyserini.topics.reading import read_topics

    iterator = read_topics(spec)
    return {qid: iterator.topics[qid] for qid in iterator.order}
