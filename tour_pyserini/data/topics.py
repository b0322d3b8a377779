"""Read topics and questions with answers, from files or by Pyserini's names.

Files of lines (`.tsv`, `.txt`, `.csv`, `.jsonl`); the first line decides:

| format | a line | ids |
|---|---|---|
| JSON lines with ids | `{"_id": "q1", "text": "why"}`, with or without `answers` | strings |
| JSON lines without ids | `{"question": "why", "answers": ["A"]}` | 0, 1, 2, ... |
| DPR | `why<TAB>['A', 'B']` | 0, 1, 2, ... |
| TSV | `q1<TAB>why` | integers if all of them are integers |

Files of one JSON value (`.json`):

| format | the value | ids |
|---|---|---|
| list | `[{"question": "why", "answers": ["A"]}, ...]` | strings; without ids 0, 1, 2, ... |
| SQuAD | `{"data": [{"paragraphs": [{"qas": [{"id": "q1", "question": "why", "answers": [...]}]}]}]}` | strings |
| retrieval results | `{"q1": {"question": "why", "answers": ["A"], "contexts": [...]}, ...}` | strings |

Ids, their types and the numbering are those of Pyserini's own readers.
"""

import ast
import copy
import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tour_pyserini.data.input_files import (
    Entry,
    Line,
    Location,
    first_field,
    inner_suffix,
    json_object,
    load_json,
    read_lines,
)
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.java import ensure_java
from tour_pyserini.support.pyserini_names import may_be_topics

ID_FIELDS = ("_id", "id", "qid", "query_id")
TEXT_FIELDS = ("question", "text", "query", "title")  # a record with a question may have a passage as its text
ANSWER_FIELDS = ("answers", "answer")

_LINE_ENDINGS = {".tsv", ".txt", ".csv", ".jsonl"}  # DPR's tab-separated files end with .csv
_CANONICAL_INTEGER = re.compile("0|[1-9][0-9]{0,17}")  # "007" is not one; longer numbers may not fit 64 bits
# A list of quoted texts and nothing inside it: what is nested deeply can overflow the stack of a parser.
_STRING = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")"""
_TEXT = rf"{_STRING}(?:\s*{_STRING})*+"  # Python joins strings that stand side by side
_FLAT_LIST = re.compile(rf"\s*\[\s*(?:{_TEXT}\s*,\s*)*+(?:{_TEXT}\s*)?+\]\s*", re.DOTALL)

Topics = dict[int | str, dict[str, Any]]
"""Topics by id, as Pyserini has them: `{id: {"title": text, "answers": [...]}}`."""


class _Topic(NamedTuple):
    """The id and text of a query, and its answers where the file has them."""

    qid: str
    text: str
    answers: list[str] | None = None


def _make_topic(location: Location, qid: str, text: str, answers: list[str] | None = None) -> _Topic:
    """Make a topic; an id that cannot be written to a run file is refused."""
    if not qid:
        location.refuse("has an empty query id")
    if qid.split() != [qid]:
        location.refuse(f"has white space in the query id {qid!r}; run files do not allow it")
    if any("\ud800" <= character <= "\udfff" for character in qid):
        location.refuse(f"has half a surrogate pair in the query id {qid!r}, which cannot be written as UTF-8")
    return _Topic(qid, text.strip(), answers)


def _require_text(location: Location, topic: _Topic) -> None:
    """Refuse a topic whose text is empty."""
    if not topic.text:
        location.refuse(f"has no text for the query {topic.qid!r}")


def _parse_answers(location: Location, written: str) -> list[str]:
    """Parse a list of strings, written as JSON or as a Python literal. No code is evaluated."""
    for parse in (json.loads, ast.literal_eval) if _FLAT_LIST.fullmatch(written) else ():
        try:
            answers = parse(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return check_answers(location, answers)
    location.refuse("does not have a list of strings as its answers")


def check_answers(location: Location, answers: Any) -> list[str]:
    """The value unchanged, if it is a list of strings; any other value is refused."""
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        location.refuse("does not have a list of strings as its answers")
    return answers


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
    topics = _local_topics(Path(spec), only) if topics_format == "default" else None
    if topics is None:
        return _from_pyserini(str(spec), topics_format)
    return LocalTopics(topics)


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
    topics = _local_topics(Path(spec))
    if topics is None:
        iterator = read_topics(spec)
        topics = {qid: iterator.topics[qid] for qid in iterator.order}
    questions = []
    for qid, topic in topics.items():
        if not isinstance(topic.get("answers"), list):
            raise TourError(f"the query {str(qid)!r} of {spec} has no answers; give questions with answers.")
        questions.append(Question(str(qid), str(topic.get("title", "")), topic["answers"]))
    return questions


# --- What Pyserini reads ---


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
        _require_text(entry, _make_topic(entry, str(qid), title if isinstance(title, str) else ""))


def _with_answers(name: str, qid: int | str, topic: Any) -> Any:
    """The topic with its answers as a list of strings; Pyserini may give the list as one string."""
    answers = topic.get("answers") if isinstance(topic, dict) else None
    if answers is None:
        return topic
    entry = Entry(name, f"query {qid!r}")
    if not isinstance(answers, str):
        return topic | {"answers": check_answers(entry, answers)}
    if answers.startswith('"'):  # quoted as in a CSV file
        answers = answers[1:-1].replace('""', '"')
    return topic | {"answers": _parse_answers(entry, answers)}


# --- Topic files of this machine ---


def _local_topics(path: Path, only: Set[str] | None = None) -> Topics | None:
    """Read a topic file of this machine; its ending and its content decide about the format.

    Returns:
        The topics in the order of the file; None for what only Pyserini can read: its own `.json` layout, its names
        for topics, and other endings.
    """
    ending = inner_suffix(path)
    if ending == ".json":
        value = load_json(path)
        if _is_pyserini_topics(value):
            return None
        topics, integer_ids = _json_topics(path, value)
    elif ending in _LINE_ENDINGS:
        lines = read_lines(path)
        first = next(lines, None)
        if first is None:
            raise TourError(f"the topics file {path} is empty.")
        parse, integer_ids = _line_format(first)
        topics = ((line, parse(line, position)) for position, line in enumerate(chain([first], lines)))
    else:
        return None
    return _by_id(path, topics, only, integer_ids=integer_ids)


def _by_id(
    path: Path, topics: Iterable[tuple[Location, _Topic]], only: Set[str] | None, *, integer_ids: bool
) -> Topics:
    by_id: dict[str, _Topic] = {}
    for location, topic in topics:
        if topic.qid in by_id:
            location.refuse(f"repeats the query id {topic.qid!r}")
        if only is None or topic.qid in only:
            _require_text(location, topic)
        by_id[topic.qid] = topic
    if not by_id:
        raise TourError(f"the topics file {path} holds no topic.")
    integer_ids = integer_ids and all(map(_CANONICAL_INTEGER.fullmatch, by_id))
    return {int(qid) if integer_ids else qid: _fields(topic) for qid, topic in by_id.items()}


def _fields(topic: _Topic) -> dict[str, Any]:
    return {"title": topic.text} | ({} if topic.answers is None else {"answers": topic.answers})


def _record_topic(location: Location, record: Any, position: int | None) -> _Topic:
    """The topic of a JSON record with an id, or without one if its position is to be its id."""
    if not isinstance(record, dict):
        location.refuse("is not a JSON object")
    qid = first_field(record, ID_FIELDS)
    if position is not None and qid is not None:
        location.refuse("has a query id, but the first question of the file has none; give all of them ids, or none")
    if position is None and (isinstance(qid, bool) or not isinstance(qid, str | int)):
        location.refuse(f"has no query id (expected one of {', '.join(ID_FIELDS)})")
    return _topic_with_id(location, str(qid if position is None else position), record)


def _topic_with_id(location: Location, qid: str, record: dict[str, Any]) -> _Topic:
    """The topic of a record whose id is known; answers may be a list, a list written as a string, or one string."""
    text, answers = first_field(record, TEXT_FIELDS), first_field(record, ANSWER_FIELDS)
    if not isinstance(text, str):
        location.refuse(f"has no query text (expected one of {', '.join(TEXT_FIELDS)})")
    if isinstance(answers, str):
        answers = _parse_answers(location, answers.strip()) if answers.lstrip().startswith("[") else [answers]
    return _make_topic(location, qid, text, None if answers is None else check_answers(location, answers))


# --- Files of lines ---


def _line_format(first: Line) -> tuple[Callable[[Line, int], _Topic], bool]:
    """What parses a line at a position (from 0), in a file that begins with this line.

    Returns:
        The function, and whether ids become integers where all of them are integers.
    """
    if first.text.lstrip().startswith("{") or inner_suffix(first.path) == ".jsonl":
        record = json_object(first)
        has_answers = first_field(record, ANSWER_FIELDS) is not None
        if "question" in record and has_answers and first_field(record, ID_FIELDS) is None:
            # As Pyserini's DprJsonlTopicReader.
            return lambda line, position: _record_topic(line, json_object(line), position), True
        return lambda line, _: _record_topic(line, json_object(line), None), False
    return _dpr_topic if _is_dpr(first) else _tsv_topic, True


def _is_dpr(first: Line) -> bool:
    """Whether the second of two columns is a list, or a list with an error in it."""
    columns = _dpr_columns(first)
    if len(columns) != 2 or not columns[1].startswith("["):
        return False
    # The text of a TSV line may begin with a bracket too: "7<TAB>[sic] in quotations".
    return columns[1].endswith("]") or columns[1].startswith(("['", '["')) or len(columns[0].split()) > 1


def _dpr_topic(line: Line, position: int) -> _Topic:
    """As Pyserini's DprNqTopicReader."""
    columns = _dpr_columns(line)
    if len(columns) != 2:
        line.refuse("is not a question, a tab and a list of answers")
    return _make_topic(line, str(position), columns[0], _parse_answers(line, columns[1]))


def _dpr_columns(line: Line) -> list[str]:
    """The columns, without the quotes that a CSV writer puts around a column that contains quotes."""
    try:
        return [column.strip() for column in next(csv.reader([line.text], delimiter="\t"))]
    except csv.Error as error:
        line.refuse(f"cannot be split into columns ({error})")


def _tsv_topic(line: Line, position: int) -> _Topic:
    """As Pyserini's TsvIntTopicReader and TsvStringTopicReader."""
    columns = line.text.split("\t")
    if len(columns) < 2:
        line.refuse("has no tab between a query id and a text")
    if any(column.strip() for column in columns[2:]):
        line.refuse(f"has {len(columns)} columns where an id and a text were expected")
    return _make_topic(line, columns[0].strip(), columns[1])


# --- Files of one JSON value ---


def _json_topics(path: Path, value: Any) -> tuple[Iterator[tuple[Location, _Topic]], bool]:
    """The topics of a value, each with its location, and whether ids become integers where all are integers."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return _squad_topics(path, value), False
    if isinstance(value, list):
        first = value[0] if value and isinstance(value[0], dict) else {}
        has_ids = first_field(first, ID_FIELDS) is not None
        return _list_topics(path, value, has_ids), not has_ids
    if _is_object_of_objects(value):
        return _retrieval_topics(path, value), False
    raise TourError(
        f"{path} has no known format: expected a list of questions with answers, SQuAD's layout, "
        "or Pyserini's topics or retrieval results."
    )


def _list_topics(path: Path, records: list[Any], has_ids: bool) -> Iterator[tuple[Location, _Topic]]:
    """The topics of a list as DPR and EntityQuestions publish them; other fields are ignored."""
    for position, record in enumerate(records):
        entry = Entry(path, f"entry [{position}]")
        topic = _record_topic(entry, record, None if has_ids else position)
        if topic.answers is None:
            entry.refuse("has no answers")
        yield entry, topic


def _squad_topics(path: Path, value: dict[str, Any]) -> Iterator[tuple[Location, _Topic]]:
    """The questions of SQuAD 1.1, SQuAD 2.0 and XQuAD, in file order; equal answers are kept once, in order."""
    for entry, question in _nested_records(path, "", value, ("data", "paragraphs", "qas")):
        answers = question.get("answers")
        if not isinstance(answers, list) or not all(
            isinstance(answer, dict) and isinstance(answer.get("text"), str) for answer in answers
        ):
            entry.refuse("does not have a list of answers, each with a text")
        texts = list(dict.fromkeys(answer["text"] for answer in answers))
        record = {"id": question.get("id"), "question": question.get("question"), "answers": texts}
        yield entry, _record_topic(entry, record, None)


def _nested_records(
    path: Path, prefix: str, value: dict[str, Any], names: tuple[str, ...]
) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """The objects in the innermost of nested lists, each with its entry, such as `data[0].paragraphs[2].qas[1]`."""
    name, *inner = names
    for position, record in enumerate(value[name]):
        entry = Entry(path, f"{prefix}{name}[{position}]")
        if not isinstance(record, dict):
            entry.refuse("is not a JSON object")
        if not inner:
            yield entry, record
        elif isinstance(record.get(inner[0]), list):
            yield from _nested_records(path, f"{entry.where}.", record, tuple(inner))
        else:
            entry.refuse(f"has no list `{inner[0]}`")


def _is_object_of_objects(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(record, dict) for record in value.values())


def _is_pyserini_topics(value: Any) -> bool:
    """Whether this is Pyserini's own layout, `{id: {"title": text}, ...}`, which Pyserini reads itself."""
    return _is_object_of_objects(value) and all(isinstance(topic.get("title"), str) for topic in value.values())


def _retrieval_topics(path: Path, records: dict[str, dict[str, Any]]) -> Iterator[tuple[Location, _Topic]]:
    """The topics of retrieval results; the retrieved contexts are ignored."""
    for qid, record in records.items():
        entry = Entry(path, f"query {qid!r}")
        yield entry, _topic_with_id(entry, qid, record)
