"""Queries with their ids and answers, from local files or from Pyserini."""

import copy
import os
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tour_pyserini.data.lines import Entry
from tour_pyserini.data.topic import checked_answers, checked_topic, parse_answers, with_text
from tour_pyserini.data.topic_formats import Topics, local_topics
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.java import ensure_java

if TYPE_CHECKING:
    from pyserini.query_iterator import QueryIterator


def read_topics(
    spec: str | os.PathLike[str], topics_format: str = "default", *, only: Set[str] | None = None
) -> "QueryIterator":
    """Read queries into one of Pyserini's query iterators, in Pyserini's order.

    Args:
        spec: a `.tsv`, `.txt` or `.csv` file (`id<TAB>text`, or DPR's `question<TAB>[answers]`), a `.jsonl` file
            (BEIR's queries, or questions with answers), a `.json` file (a list of questions with answers, as DPR and
            EntityQuestions have it, SQuAD's layout, or Pyserini's retrieval results), each also as `.gz`; anything
            else is left to Pyserini: its other formats and its names for topics.
        topics_format: one of Pyserini's formats (`default`, `kilt`, `raw_jsonl`, ...); all but the default are left
            to Pyserini.
        only: ids of the topics that will be used: a file on this machine may have others without a text, as CACM's.

    Returns:
        An iterator over (id, text); `topics[id]["answers"]` is a list of strings where the file has answers.

    Example:
        for qid, text in read_topics("scifact/queries.jsonl"):
            ...
    """
    topics = local_topics(Path(spec), only) if topics_format == "default" else None
    if topics is None:
        return _from_pyserini(str(spec), topics_format)
    ensure_java()
    from pyserini.query_iterator import DefaultQueryIterator

    return DefaultQueryIterator(topics)


def _from_pyserini(name: str, topics_format: str) -> "QueryIterator":
    ensure_java()
    from pyserini.query_iterator import TopicsFormat, get_query_iterator

    try:
        kind = TopicsFormat(topics_format)
    except ValueError:
        known = ", ".join(one.value for one in TopicsFormat)
        raise TourError(f"there is no topics format {topics_format!r}; choose one of {known}.") from None
    try:
        iterator = get_query_iterator(name, kind)
    except Exception as error:  # whatever Pyserini or Java throws
        reason = first_line(error)
        raise TourError(f"Pyserini cannot read the topics {name!r} ({topics_format}): {reason}.") from error
    if kind is TopicsFormat.DEFAULT:
        _check_texts(name, iterator.topics)
    iterator.topics = {qid: _with_answers(name, qid, topic) for qid, topic in iterator.topics.items()}
    return iterator


def _check_texts(name: str, topics: dict[int | str, Any]) -> None:
    for qid, topic in topics.items():
        title = topic.get("title")
        place = Entry(name, f"query {qid!r}")
        with_text(place, checked_topic(place, str(qid), title if isinstance(title, str) else ""))


def _with_answers(name: str, qid: int | str, topic: Any) -> Any:
    """The topic with its answers as a list of strings, where Pyserini may have the text of a list."""
    answers = topic.get("answers") if isinstance(topic, dict) else None
    if answers is None:
        return topic
    place = Entry(name, f"query {qid!r}")
    if not isinstance(answers, str):
        return topic | {"answers": checked_answers(place, answers)}
    if answers.startswith('"'):  # as a CSV file quotes a text that has quotes in it
        answers = answers[1:-1].replace('""', '"')
    return topic | {"answers": parse_answers(place, answers)}


def judged_only(
    iterator: "QueryIterator", judged: Set[str], *, source: str | os.PathLike[str] = "the judgements"
) -> "QueryIterator":
    """Only the topics that are judged; BEIR's queries.jsonl holds those of all splits.

    Args:
        iterator: topics, left as they are.
        judged: ids of judged topics.
        source: where they come from, for an error.
    """
    kept = copy.copy(iterator)
    kept.topics = {qid: topic for qid, topic in iterator.topics.items() if str(qid) in judged}
    kept.order = [qid for qid in iterator.order if qid in kept.topics]
    if not kept.topics:
        raise TourError(f"{source} judges none of the {len(iterator)} topics; check that both belong together.")
    return kept


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
        topics = _questions_from_pyserini(spec)
    questions = []
    for qid, topic in topics.items():
        if not isinstance(topic.get("answers"), list):
            raise TourError(f"the query {str(qid)!r} of {spec} has no answers; give questions with answers.")
        questions.append(Question(str(qid), str(topic.get("title", "")), topic["answers"]))
    return questions


def _questions_from_pyserini(spec: str | os.PathLike[str]) -> Topics:

    iterator = read_topics(spec)
    return {qid: iterator.topics[qid] for qid in iterator.order}
