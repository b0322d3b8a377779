"""Read topic files in seven formats.

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

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.lines import Entry, Line, Location, first_field, json_object, load_json, read_lines
from tour_pyserini.data.packed_files import inner_suffix
from tour_pyserini.data.topic import Topic, checked_answers, checked_topic, parse_answers, require_text
from tour_pyserini.errors import TourError

ID_FIELDS = ("_id", "id", "qid", "query_id")
TEXT_FIELDS = ("question", "text", "query", "title")  # a record with a question may have a passage as its text
ANSWER_FIELDS = ("answers", "answer")

LINE_ENDINGS = {".tsv", ".txt", ".csv", ".jsonl"}  # DPR's tab-separated files end with .csv
CANONICAL_INTEGER = re.compile("0|[1-9][0-9]{0,17}")  # "007" is not one; longer numbers may not fit 64 bits

Topics = dict[int | str, dict[str, Any]]
"""Topics by id, as Pyserini has them: `{id: {"title": text, "answers": [...]}}`."""


class LineFormat(NamedTuple):
    """A format with one topic per line.

    Attributes:
        matches: whether a file that begins with this line has the format.
        parse: makes a topic from a line and its position, counted from 0.
        integer_ids: whether ids become integers where all of them are integers.
    """

    matches: Callable[[Line], bool]
    parse: Callable[[Line, int], Topic]
    integer_ids: bool


class JsonFormat(NamedTuple):
    """A format of a file that is one JSON value.

    Attributes:
        matches: whether the value has the format.
        topics: gives the topics of the value, each with its location.
        integer_ids: whether ids become integers where all of them are integers.
    """

    matches: Callable[[Any], bool]
    topics: Callable[[Path, Any], Iterator[tuple[Location, Topic]]]
    integer_ids: bool


def local_topics(path: Path, only: Set[str] | None = None) -> Topics | None:
    """Read a topic file of this machine.

    Args:
        path: the file; its ending and its content decide about the format.
        only: ids of the topics that will be used, all by default; the other topics may have an empty text.

    Returns:
        The topics in the order of the file; None for what only Pyserini can read: its own `.json` layout, its names
        for topics, and other endings.
    """
    ending = inner_suffix(path)
    if ending == ".json":
        return _from_json(path, only)
    return _from_lines(path, only) if ending in LINE_ENDINGS else None


def _from_lines(path: Path, only: Set[str] | None) -> Topics:
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise TourError(f"the topics file {path} is empty.")
    line_format = next(known for known in LINE_FORMATS if known.matches(first))
    topics = ((line, line_format.parse(line, position)) for position, line in enumerate(chain([first], lines)))
    return _by_id(path, topics, only, integer_ids=line_format.integer_ids)


def _from_json(path: Path, only: Set[str] | None) -> Topics | None:
    value = load_json(path)
    if _is_pyserini_topics(value):
        return None
    for known in JSON_FORMATS:
        if known.matches(value):
            return _by_id(path, known.topics(path, value), only, integer_ids=known.integer_ids)
    raise TourError(
        f"{path} has no known format: expected a list of questions with answers, SQuAD's layout, "
        "or Pyserini's topics or retrieval results."
    )


def _by_id(path: Path, topics: Iterable[tuple[Location, Topic]], only: Set[str] | None, *, integer_ids: bool) -> Topics:
    by_id: dict[str, Topic] = {}
    for location, topic in topics:
        if topic.qid in by_id:
            location.refuse(f"repeats the query id {topic.qid!r}")
        if only is None or topic.qid in only:
            require_text(location, topic)
        by_id[topic.qid] = topic
    if not by_id:
        raise TourError(f"the topics file {path} holds no topic.")
    integer_ids = integer_ids and all(map(CANONICAL_INTEGER.fullmatch, by_id))
    return {int(qid) if integer_ids else qid: _fields(topic) for qid, topic in by_id.items()}


def _fields(topic: Topic) -> dict[str, Any]:
    return {"title": topic.text} | ({} if topic.answers is None else {"answers": topic.answers})


# --- JSON records: shared by the formats below ---


def _record_topic(location: Location, record: dict[str, Any]) -> Topic:
    """The topic of a record with an id."""
    qid = first_field(record, ID_FIELDS)
    if isinstance(qid, bool) or not isinstance(qid, str | int):
        location.refuse(f"has no query id (expected one of {', '.join(ID_FIELDS)})")
    return _topic_with_id(location, str(qid), record)


def _numbered_record_topic(location: Location, position: int, record: dict[str, Any]) -> Topic:
    """The topic of a record without an id; its position becomes the id."""
    if first_field(record, ID_FIELDS) is not None:
        location.refuse("has a query id, but the first question of the file has none; give all of them ids, or none")
    return _topic_with_id(location, str(position), record)


def _topic_with_id(location: Location, qid: str, record: dict[str, Any]) -> Topic:
    """The topic of a record whose id is known; answers may be a list, a list written as a string, or one string."""
    text, answers = first_field(record, TEXT_FIELDS), first_field(record, ANSWER_FIELDS)
    if not isinstance(text, str):
        location.refuse(f"has no query text (expected one of {', '.join(TEXT_FIELDS)})")
    if isinstance(answers, str):
        answers = parse_answers(location, answers.strip()) if answers.lstrip().startswith("[") else [answers]
    return checked_topic(location, qid, text, None if answers is None else checked_answers(location, answers))


# --- JSON lines, with and without ids ---


def _is_json_lines(first: Line) -> bool:
    return first.text.lstrip().startswith("{") or inner_suffix(first.path) == ".jsonl"


def _is_json_lines_without_ids(first: Line) -> bool:
    """Whether the line is a question with answers and without an id."""
    if not _is_json_lines(first):
        return False
    record = json_object(first)
    has_answers = first_field(record, ANSWER_FIELDS) is not None
    return "question" in record and has_answers and first_field(record, ID_FIELDS) is None


def _json_line_topic(line: Line, position: int) -> Topic:
    return _record_topic(line, json_object(line))


def _numbered_json_line_topic(line: Line, position: int) -> Topic:
    """As Pyserini's DprJsonlTopicReader."""
    return _numbered_record_topic(line, position, json_object(line))


# --- DPR: a question, a tab and a list of answers ---


def _is_dpr(first: Line) -> bool:
    """Whether the second of two columns is a list, or a list with an error in it."""
    columns = _dpr_columns(first)
    if len(columns) != 2 or not columns[1].startswith("["):
        return False
    # The text of a TSV line may begin with a bracket too: "7<TAB>[sic] in quotations".
    return columns[1].endswith("]") or columns[1].startswith(("['", '["')) or len(columns[0].split()) > 1


def _dpr_topic(line: Line, position: int) -> Topic:
    """As Pyserini's DprNqTopicReader."""
    columns = _dpr_columns(line)
    if len(columns) != 2:
        line.refuse("is not a question, a tab and a list of answers")
    return checked_topic(line, str(position), columns[0], parse_answers(line, columns[1]))


def _dpr_columns(line: Line) -> list[str]:
    """The columns, without the quotes that a CSV writer puts around a column that contains quotes."""
    try:
        return [column.strip() for column in next(csv.reader([line.text], delimiter="\t"))]
    except csv.Error as error:
        line.refuse(f"cannot be split into columns ({error})")


# --- TSV: an id, a tab and a text ---


def _is_tsv(first: Line) -> bool:
    """Always true: TSV is tried last, and its parser explains what is wrong with a line."""
    return True


def _tsv_topic(line: Line, position: int) -> Topic:
    """As Pyserini's TsvIntTopicReader and TsvStringTopicReader."""
    columns = line.text.split("\t")
    if len(columns) < 2:
        line.refuse("has no tab between a query id and a text")
    if any(column.strip() for column in columns[2:]):
        line.refuse(f"has {len(columns)} columns where an id and a text were expected")
    return checked_topic(line, columns[0].strip(), columns[1])


# --- JSON list of questions with answers, as DPR and EntityQuestions publish them ---


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_list_with_ids(value: Any) -> bool:
    """Whether the value is a list whose first record has an id."""
    return (
        _is_list(value) and bool(value) and isinstance(value[0], dict) and first_field(value[0], ID_FIELDS) is not None
    )


def _list_topics(path: Path, records: list[Any]) -> Iterator[tuple[Location, Topic]]:
    """The topics of the list; fields other than id, question and answers are ignored."""
    has_ids = _is_list_with_ids(records)
    for position, record in enumerate(records):
        entry = Entry(path, f"entry [{position}]")
        if not isinstance(record, dict):
            entry.refuse("is not a JSON object")
        topic = _record_topic(entry, record) if has_ids else _numbered_record_topic(entry, position, record)
        if topic.answers is None:
            entry.refuse("has no answers")
        yield entry, topic


# --- SQuAD 1.1, SQuAD 2.0 and XQuAD ---


def _is_squad(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("data"), list)


def _squad_topics(path: Path, value: dict[str, Any]) -> Iterator[tuple[Location, Topic]]:
    """The questions in file order; equal answers of several annotators are kept once, in order."""
    for entry, question in _nested_records(path, "", value, ("data", "paragraphs", "qas")):
        answers = question.get("answers")
        if not isinstance(answers, list) or not all(
            isinstance(answer, dict) and isinstance(answer.get("text"), str) for answer in answers
        ):
            entry.refuse("does not have a list of answers, each with a text")
        texts = list(dict.fromkeys(answer["text"] for answer in answers))
        record = {"id": question.get("id"), "question": question.get("question"), "answers": texts}
        yield entry, _record_topic(entry, record)


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


# --- Pyserini's retrieval results, and Pyserini's own topics ---


def _is_object_of_objects(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(record, dict) for record in value.values())


def _is_pyserini_topics(value: Any) -> bool:
    """Whether this is Pyserini's own layout, `{id: {"title": text}, ...}`, which Pyserini reads itself."""
    return _is_object_of_objects(value) and all(isinstance(topic.get("title"), str) for topic in value.values())


def _retrieval_topics(path: Path, records: dict[str, dict[str, Any]]) -> Iterator[tuple[Location, Topic]]:
    """The topics of retrieval results; the retrieved contexts are ignored."""
    for qid, record in records.items():
        entry = Entry(path, f"query {qid!r}")
        yield entry, _topic_with_id(entry, qid, record)


# --- All formats; the first that matches is used ---

LINE_FORMATS = (
    LineFormat(_is_json_lines_without_ids, _numbered_json_line_topic, integer_ids=True),
    LineFormat(_is_json_lines, _json_line_topic, integer_ids=False),
    LineFormat(_is_dpr, _dpr_topic, integer_ids=True),
    LineFormat(_is_tsv, _tsv_topic, integer_ids=True),
)
JSON_FORMATS = (
    JsonFormat(_is_squad, _squad_topics, integer_ids=False),
    JsonFormat(_is_list_with_ids, _list_topics, integer_ids=False),
    JsonFormat(_is_list, _list_topics, integer_ids=True),
    JsonFormat(_is_object_of_objects, _retrieval_topics, integer_ids=False),
)
