"""Read topics and questions with answers, from files or by Pyserini's names."""

import copy
import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tour_pyserini.data.lines import Entry
from tour_pyserini.data.topic import checked_answers, checked_topic, parse_answers, require_text
from tour_pyserini.data.topic_formats import Topics, local_topics
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.java import ensure_java
from tour_pyserini.support.pyserini_names import may_be_topics


class TopicIterator(Protocol):
    """Topics in their order; Pyserini's query iterators have this interface too.

    Attributes:
        topics: the fields of each topic by its id.
        order: the ids in the order in which topics are searched.
    """

    topics: dict[Any, Any]
    order: list[Any]

    def get_query(self, id_: Any) -> Any:
        """The query of the topic with this id."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """(id, query) pairs in their order."""

    def __len__(self) -> int:
        """The number of topics."""


class LocalTopics:
    """Topics of a file on this machine, sorted by id as Pyserini's `DefaultQueryIterator` sorts them.

    Args:
        topics: the fields of each topic by its id; `title` is the text.
    """

    def __init__(self, topics: Topics) -> None:
        self.topics: dict[Any, Any] = topics
        mixed = len({type(qid) for qid in topics}) > 1
        self.order: list[Any] = sorted(topics, key=str) if mixed else sorted(topics)

    def get_query(self, id_: int | str) -> str:
        """The text of the topic with this id."""
        return self.topics[id_].get("title")

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return ((id_, self.get_query(id_)) for id_ in self.order)

    def __len__(self) -> int:
        return len(self.topics)


def read_topics(
    spec: str | os.PathLike[str], topics_format: str = "default", *, only: Set[str] | None = None
) -> TopicIterator:
    """Read topics, in Pyserini's order. Pyserini is imported only for what it reads.

    Args:
        spec: a `.tsv`, `.txt` or `.csv` file (`id<TAB>text`, or DPR's `question<TAB>[answers]`), a `.jsonl` file
            (BEIR's queries, or questions with answers), a `.json` file (a list of questions with answers, as DPR and
            EntityQuestions publish them, SQuAD's layout, or Pyserini's retrieval results), each also as `.gz`,
            `.xz` or `.zst`.
            Pyserini reads everything else: its other formats and its names for topics.
        topics_format: one of Pyserini's formats (`default`, `kilt`, `raw_jsonl`, ...); Pyserini reads all but the
            default.
        only: ids of the topics that will be used, all by default; the other topics of a file on this machine may have
            an empty text, as some of CACM's do.

    Returns:
        An iterator over (id, text); `topics[id]["answers"]` is a list of strings where the file has answers.

    Example:
        for qid, text in read_topics("scifact/queries.jsonl"):
            ...
    """
    topics = local_topics(Path(spec), only) if topics_format == "default" else None
    if topics is None:
        return _from_pyserini(str(spec), topics_format)
    return LocalTopics(topics)


def _from_pyserini(name: str, topics_format: str) -> TopicIterator:
    if topics_format == "default" and not Path(name).exists() and not may_be_topics(name):
        raise TourError(f"topics not found: {name!r} is neither a file nor one of Pyserini's names for topics.")
    ensure_java()
    from pyserini.query_iterator import TopicsFormat, get_query_iterator

    try:
        kind = TopicsFormat(topics_format)
    except ValueError:
        known = ", ".join(known_format.value for known_format in TopicsFormat)
        raise TourError(f"unknown topics format {topics_format!r}; choose one of {known}.") from None
    try:
        iterator = get_query_iterator(name, kind)
    except Exception as error:  # Pyserini and Java raise errors of many types
        reason = first_line(error)
        raise TourError(f"Pyserini cannot read the topics {name!r} ({topics_format}): {reason}.") from error
    if kind is TopicsFormat.DEFAULT:
        _check_texts(name, iterator.topics)
    iterator.topics = {qid: _with_answers(name, qid, topic) for qid, topic in iterator.topics.items()}
    return iterator


def _check_texts(name: str, topics: dict[int | str, Any]) -> None:
    for qid, topic in topics.items():
        title = topic.get("title")
        entry = Entry(name, f"query {qid!r}")
        require_text(entry, checked_topic(entry, str(qid), title if isinstance(title, str) else ""))


def _with_answers(name: str, qid: int | str, topic: Any) -> Any:
    """The topic with its answers as a list of strings; Pyserini may give the list as one string."""
    answers = topic.get("answers") if isinstance(topic, dict) else None
    if answers is None:
        return topic
    entry = Entry(name, f"query {qid!r}")
    if not isinstance(answers, str):
        return topic | {"answers": checked_answers(entry, answers)}
    if answers.startswith('"'):  # quoted as in a CSV file
        answers = answers[1:-1].replace('""', '"')
    return topic | {"answers": parse_answers(entry, answers)}


def judged_only(
    iterator: TopicIterator, judged: Set[str], *, source: str | os.PathLike[str] = "the judgements"
) -> TopicIterator:
    """Keep only the topics that are judged; BEIR's queries.jsonl holds the topics of all splits.

    Args:
        iterator: all topics; it is not changed.
        judged: ids of judged topics.
        source: name of the judgements in error messages.
    """
    kept = topics_of(iterator, [qid for qid in iterator.order if str(qid) in judged])
    if not kept.topics:
        raise TourError(
            f"{source} judges none of the {len(iterator)} topics; check that both belong to the same collection."
        )
    return kept


def topics_of(iterator: TopicIterator, ids: Sequence[Any]) -> TopicIterator:
    """The topics with these ids, in this order; the iterator is not changed."""
    kept = copy.copy(iterator)
    wanted = set(ids)
    kept.topics = {qid: topic for qid, topic in iterator.topics.items() if qid in wanted}
    kept.order = list(ids)
    return kept


class Question(NamedTuple):
    """The id, text and answers of a question; in some collections the answers are regular expressions."""

    qid: str
    text: str
    answers: Sequence[str]


def read_questions(spec: str | os.PathLike[str]) -> list[Question]:
    """Read questions and their answers in the order of their file, or in Pyserini's order if `spec` is a name.

    Args:
        spec: as in `read_topics`; Java is not started for a file on this machine that we read ourselves.

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
