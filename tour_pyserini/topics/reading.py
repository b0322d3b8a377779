"""Topics from whatever names them."""

import os
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.plugs.java import ensure_java
from tour_pyserini.topics.local import local_topics
from tour_pyserini.topics.place import Entry
from tour_pyserini.topics.topic import checked_answers, checked_topic, parse_answers, with_text

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
