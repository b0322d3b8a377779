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
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.input_files import (
    Entry,
    Line,
    Location,
    first_field,
    inner_suffix,
    is_column,
    json_object,
    load_json,
    read_lines,
)
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.pyserini import ensure_java, may_be_topics

TEXT_FIELDS = ("question", "text", "query", "title")  # a record with a question may have a passage as its text
ANSWER_FIELDS = ("answers", "answer")

_ID_FIELDS = ("_id", "id", "qid", "query_id")
_LINE_ENDINGS = {".tsv", ".txt", ".csv", ".jsonl"}  # DPR's tab-separated files end with .csv
csv.field_size_limit(sys.maxsize)  # questions and their answers may be long
_CANONICAL_INTEGER = re.compile("0|[1-9][0-9]{0,17}")  # "007" is not one; longer numbers may not fit 64 bits

Topics = dict[int | str, dict[str, Any]]
"""Topics by id, as Pyserini has them: `{id: {"title": text, "answers": [...]}}`."""
_Topic = tuple[str, dict[str, Any]]
"""The id of a topic and its fields."""


class TopicIterator:
    """Topics of a file, sorted by id as Pyserini's `DefaultQueryIterator` sorts them; all its iterators are like this.

    Attributes:
        topics: the fields of each topic by its id; `title` is the text.
        order: the ids in the order in which topics are searched.
    """

    def __init__(self, topics: Topics) -> None:
        self.topics: dict[Any, Any] = topics
        mixed = len({type(qid) for qid in topics}) > 1
        self.order: list[Any] = sorted(topics, key=str) if mixed else sorted(topics)

    def get_query(self, id_: Any) -> Any:
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
    return _from_pyserini(str(spec), topics_format) if topics is None else TopicIterator(topics)


def judged_only(
    iterator: TopicIterator, judged: Set[str], *, source: str | os.PathLike[str] = "the judgements"
) -> TopicIterator:
    """Keep only the topics that are judged; BEIR's queries.jsonl holds the topics of all splits.

    Args:
        iterator: all topics; it is not changed.
        judged: ids of judged topics.
        source: name of the judgements in error messages.
    """
    part = topics_of(iterator, [qid for qid in iterator.order if str(qid) in judged])
    if not part.topics:
        raise TourError(
            f"{source} judges none of the {len(iterator)} topics; check that both belong to the same collection."
        )
    return part


def topics_of(iterator: TopicIterator, ids: Sequence[Any]) -> TopicIterator:
    """The topics with these ids, in this order; the iterator is not changed."""
    part = copy.copy(iterator)
    wanted = set(ids)
    part.topics = {qid: topic for qid, topic in iterator.topics.items() if qid in wanted}
    part.order = list(ids)
    return part


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


def check_answers(location: Location, answers: Any) -> list[str]:
    """The value unchanged, if it is a list of strings; any other value is refused."""
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        location.refuse("does not have a list of strings as its answers")
    return answers


def _parse_answers(location: Location, written: str) -> list[str]:
    """Parse a list of strings, written as JSON or as a Python literal. No code is evaluated."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return check_answers(location, parse(written))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    location.refuse("does not have a list of strings as its answers")


# --- What Pyserini reads ---


def _from_pyserini(name: str, topics_format: str) -> Any:
    if topics_format == "default" and not Path(name).exists() and not may_be_topics(name):
        raise TourError(f"topics not found: {name!r} is neither a file nor one of Pyserini's names for topics.")
    ensure_java()
    from pyserini.query_iterator import TopicsFormat, get_query_iterator

    if topics_format not in (known := [one.value for one in TopicsFormat]):
        raise TourError(f"unknown topics format {topics_format!r}; choose one of {', '.join(known)}.")
    try:
        iterator = get_query_iterator(name, TopicsFormat(topics_format))
    except Exception as error:  # Pyserini and Java raise errors of many types
        reason = first_line(error)
        raise TourError(f"Pyserini cannot read the topics {name!r} ({topics_format}): {reason}.") from error
    for qid, topic in iterator.topics.items():
        entry = Entry(name, f"query {qid!r}")
        if topics_format == "default" and not str(topic.get("title") or "").strip():
            entry.refuse("has no text")
        if isinstance(topic, dict) and topic.get("answers") is not None:
            iterator.topics[qid] = topic | {"answers": _pyserini_answers(entry, topic["answers"])}
    return iterator


def _pyserini_answers(entry: Entry, answers: Any) -> list[str]:
    """Answers as a list of strings; Pyserini may give the list as one string."""
    if not isinstance(answers, str):
        return check_answers(entry, answers)
    if answers.startswith('"'):  # quoted as in a CSV file
        answers = answers[1:-1].replace('""', '"')
    return _parse_answers(entry, answers)


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
        topics, integer_ids = _line_topics(path)
    else:
        return None
    by_id: dict[str, dict[str, Any]] = {}
    for location, (qid, fields) in topics:
        if not is_column(qid):
            location.refuse(f"has the query id {qid!r}, which cannot be written to a run file")
        if qid in by_id:
            location.refuse(f"repeats the query id {qid!r}")
        if not fields["title"] and (only is None or qid in only):
            location.refuse(f"has no text for the query {qid!r}")
        by_id[qid] = fields
    if not by_id:
        raise TourError(f"the topics file {path} holds no topic.")
    integer_ids = integer_ids and all(map(_CANONICAL_INTEGER.fullmatch, by_id))
    return {int(qid) if integer_ids else qid: fields for qid, fields in by_id.items()}


def _make_topic(qid: str, text: str, answers: list[str] | None = None) -> _Topic:
    return qid, {"title": text.strip()} | ({} if answers is None else {"answers": answers})


def _record_topic(location: Location, record: Any, position: int | None) -> _Topic:
    """The topic of a JSON record with an id, or without one if its position is to be its id."""
    if not isinstance(record, dict):
        location.refuse("is not a JSON object")
    qid = first_field(record, _ID_FIELDS)
    if position is not None and qid is not None:
        location.refuse("has a query id, but the first question of the file has none; give all of them ids, or none")
    if position is None and not isinstance(qid, str | int):
        location.refuse(f"has no query id (expected one of {', '.join(_ID_FIELDS)})")
    return _topic_with_id(location, str(qid if position is None else position), record)


def _topic_with_id(location: Location, qid: str, record: dict[str, Any]) -> _Topic:
    """The topic of a record whose id is known; answers may be a list, a list written as a string, or one string."""
    text, answers = first_field(record, TEXT_FIELDS), first_field(record, ANSWER_FIELDS)
    if not isinstance(text, str):
        location.refuse(f"has no query text (expected one of {', '.join(TEXT_FIELDS)})")
    if isinstance(answers, str):
        answers = _parse_answers(location, answers.strip()) if answers.lstrip().startswith("[") else [answers]
    return _make_topic(qid, text, None if answers is None else check_answers(location, answers))


# --- Files of lines ---


def _line_topics(path: Path) -> tuple[Iterator[tuple[Location, _Topic]], bool]:
    """The topics of a file of lines, each with its line, and whether ids become integers where all are integers."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise TourError(f"the topics file {path} is empty.")
    parse, integer_ids = _line_format(first)
    return ((line, parse(line, position)) for position, line in enumerate(chain([first], lines))), integer_ids


def _line_format(first: Line) -> tuple[Callable[[Line, int], _Topic], bool]:
    """What parses a line at a position (from 0), in a file that begins with this line, and whether ids are integers."""
    if first.text.lstrip().startswith("{") or inner_suffix(first.path) == ".jsonl":
        record = json_object(first)
        has_answers = first_field(record, ANSWER_FIELDS) is not None
        if "question" in record and has_answers and first_field(record, _ID_FIELDS) is None:
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
    return _make_topic(str(position), columns[0], _parse_answers(line, columns[1]))


def _dpr_columns(line: Line) -> list[str]:
    """The columns, without the quotes that a CSV writer puts around a column that contains quotes."""
    return [column.strip() for column in next(csv.reader([line.text], delimiter="\t"))]


def _tsv_topic(line: Line, position: int) -> _Topic:
    """As Pyserini's TsvIntTopicReader and TsvStringTopicReader."""
    columns = line.text.split("\t")
    if len(columns) < 2:
        line.refuse("has no tab between a query id and a text")
    return _make_topic(columns[0].strip(), columns[1])  # further columns are ignored, as by Pyserini


# --- Files of one JSON value ---


def _json_topics(path: Path, value: Any) -> tuple[Iterator[tuple[Location, _Topic]], bool]:
    """The topics of a value, each with its entry, and whether ids become integers where all are integers."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return _squad_topics(path, value), False
    if isinstance(value, list):
        first = value[0] if value and isinstance(value[0], dict) else {}
        has_ids = first_field(first, _ID_FIELDS) is not None
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
        qid, fields = _record_topic(entry, record, None if has_ids else position)
        if "answers" not in fields:
            entry.refuse("has no answers")
        yield entry, (qid, fields)


def _squad_topics(path: Path, value: dict[str, Any]) -> Iterator[tuple[Location, _Topic]]:
    """The questions of SQuAD 1.1, SQuAD 2.0 and XQuAD, in file order; equal answers are there once, in order."""
    for a, article in enumerate(value["data"]):
        for p, paragraph in enumerate(article["paragraphs"]):
            for q, question in enumerate(paragraph["qas"]):
                answers = list(dict.fromkeys(answer["text"] for answer in question["answers"]))
                entry = Entry(path, f"data[{a}].paragraphs[{p}].qas[{q}]")
                yield entry, _record_topic(entry, question | {"answers": answers}, None)


def _retrieval_topics(path: Path, records: dict[str, dict[str, Any]]) -> Iterator[tuple[Location, _Topic]]:
    """The topics of retrieval results; the retrieved contexts are ignored."""
    for qid, record in records.items():
        entry = Entry(path, f"query {qid!r}")
        yield entry, _topic_with_id(entry, qid, record)


def _is_object_of_objects(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(record, dict) for record in value.values())


def _is_pyserini_topics(value: Any) -> bool:
    """Whether this is Pyserini's own layout, `{id: {"title": text}, ...}`, which Pyserini reads itself."""
    return _is_object_of_objects(value) and all(isinstance(topic.get("title"), str) for topic in value.values())
