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
    IRDS,
    Location,
    first_field,
    inner_suffix,
    is_column,
    load_json,
    read_lines,
)
from tour_pyserini.data.irds import irds_topics
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.pyserini import ensure_java, may_know

TEXT_FIELDS = ("question", "text", "query", "title")  # a record with a question may have a passage as its text
ANSWER_FIELDS = ("answers", "answer")

_ID_FIELDS = ("_id", "id", "qid", "query_id")
_LINE_ENDINGS = {".tsv", ".txt", ".csv", ".jsonl"}  # DPR's tab-separated files end with .csv
csv.field_size_limit(sys.maxsize)  # questions and their answers may be long
_CANONICAL_INTEGER = re.compile("0|[1-9][0-9]{0,17}")  # "007" is not one; longer numbers may not fit 64 bits

Topics = dict[int | str, dict[str, Any]]
"""Topics by id, as Pyserini has them: `{id: {"title": text, "answers": [...]}}`."""


class TopicIterator:
    """Topics by id, iterated as Pyserini's `QueryIterator` iterates them.

    Attributes:
        topics: the fields of each topic by its id, in the order of the file; `title` is the text.
        order: the ids in the order in which topics are searched: sorted, if none is given.
        get_query: the text of the topic with an id.
    """

    def __init__(
        self, topics: Topics, order: Sequence[Any] | None = None, get_query: Callable[[Any], Any] | None = None
    ) -> None:
        self.topics: dict[Any, Any] = topics
        mixed = len({type(qid) for qid in topics}) > 1
        self.order: list[Any] = list(order or sorted(topics, key=str if mixed else None))
        self.get_query = get_query or (lambda qid: topics[qid].get("title"))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return ((qid, self.get_query(qid)) for qid in self.order)

    def __len__(self) -> int:
        return len(self.topics)

    def part(self, ids: Sequence[Any]) -> "TopicIterator":
        """The topics with these ids, in this order."""
        wanted = set(ids)
        topics = {qid: topic for qid, topic in self.topics.items() if qid in wanted}
        return TopicIterator(topics, ids, self.get_query)

    def judged(self, judged: Set[str], source: str | os.PathLike[str] = "the judgements") -> "TopicIterator":
        """The topics that are judged; BEIR's queries.jsonl holds the topics of all splits.

        Args:
            judged: ids of judged topics.
            source: name of the judgements in error messages.
        """
        ids = [qid for qid in self.order if str(qid) in judged]
        if not ids:
            raise TourError(f"{source} judges none of the {len(self)} topics; do both belong to the same collection?")
        return self.part(ids)


def read_topics(
    spec: str | os.PathLike[str], topics_format: str = "default", *, only: Set[str] | None = None
) -> TopicIterator:
    """Read topics, in Pyserini's order. Pyserini is imported only for what it reads.

    Args:
        spec: a `.tsv`, `.txt` or `.csv` file (`id<TAB>text`, or DPR's `question<TAB>[answers]`), a `.jsonl` file
            (BEIR's queries, or questions with answers), a `.json` file (a list of questions with answers, as DPR and
            EntityQuestions publish them, SQuAD's layout, or Pyserini's retrieval results), each also as `.gz`,
            `.xz` or `.zst`.
            `irds:beir/scifact/test` is a data set of ir_datasets. Pyserini reads everything else: its other formats
            and its names for topics.
        topics_format: one of Pyserini's formats (`default`, `kilt`, `raw_jsonl`, ...); Pyserini reads all but the
            default.
        only: ids of the topics that will be used, all by default; the other topics may have an empty text, as some of
            CACM's do.

    Returns:
        An iterator over (id, text); `topics[id]["answers"]` is a list of strings where the file has answers.

    Example:
        for qid, text in read_topics("scifact/queries.jsonl"):
            ...
    """
    if str(spec).startswith(IRDS):
        return TopicIterator(irds_topics(str(spec)))
    topics = _local_topics(Path(spec), only) if topics_format == "default" else None
    return _from_pyserini(str(spec), topics_format, only) if topics is None else TopicIterator(topics)


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
    questions = []
    for qid, topic in read_topics(spec).topics.items():
        if not isinstance(topic.get("answers"), list):
            raise TourError(f"the query {str(qid)!r} of {spec} has no answers; give questions with answers.")
        questions.append(Question(str(qid), str(topic.get("title", "")), topic["answers"]))
    return questions


def _parse_answers(location: Location, written: str) -> list[str]:
    """Parse a list of strings, written as JSON or as a Python literal. No code is evaluated."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return location.strings(parse(written), "answers")
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    location.refuse("does not have a list of strings as its answers")


# --- What Pyserini reads ---


def _from_pyserini(name: str, topics_format: str, only: Set[str] | None) -> TopicIterator:
    if topics_format == "default" and not Path(name).exists() and not may_know(name):
        raise TourError(f"topics not found: {name!r} is neither a file nor one of Pyserini's names for topics.")
    ensure_java()
    from pyserini.query_iterator import TopicsFormat, get_query_iterator

    try:
        iterator = get_query_iterator(name, TopicsFormat(topics_format))
    except Exception as error:  # Pyserini and Java raise errors of many types
        reason = first_line(error)
        raise TourError(f"Pyserini cannot read the topics {name!r} ({topics_format}): {reason}.") from error
    topics = {}
    for qid in iterator.order:
        topic, entry = iterator.topics[qid], Location(name, f"query {qid!r}")
        used = topics_format == "default" and (only is None or str(qid) in only)
        if used and not str(topic.get("title") or "").strip():
            entry.refuse("has no text")
        if isinstance(topic, dict) and isinstance(answers := topic.get("answers"), str):
            if answers.startswith('"'):  # quoted as in a CSV file
                answers = answers[1:-1].replace('""', '"')
            topic = topic | {"answers": _parse_answers(entry, answers)}
        topics[qid] = topic
    return TopicIterator(topics, iterator.order, iterator.get_query)


# --- Topic files of this machine ---


class _Records(NamedTuple):
    """The records of a topic file, each with the place where it stands.

    Attributes:
        numbered: whether the position of a record is its id.
        integers: whether ids become integers where all of them are integers.
    """

    records: Iterator[tuple[Location, dict[str, Any]]]
    numbered: bool = False
    integers: bool = False


def _local_topics(path: Path, only: Set[str] | None = None) -> Topics | None:
    """Read a topic file of this machine; its ending and its content decide about the format.

    Returns:
        The topics in the order of the file; None for what only Pyserini can read: its own `.json` layout, its names
        for topics, and other endings.
    """
    ending = inner_suffix(path)
    if ending != ".json" and ending not in _LINE_ENDINGS and not path.is_fifo():
        return None
    found = _json_records(path, load_json(path)) if ending == ".json" else _line_records(path)
    if found is None:
        return None
    topics: dict[str, dict[str, Any]] = {}
    for position, (location, record) in enumerate(found.records):
        qid, fields = _topic(location, record, position if found.numbered else None)
        if not is_column(qid):
            location.refuse(f"has the query id {qid!r}, which cannot be written to a run file")
        if qid in topics:
            location.refuse(f"repeats the query id {qid!r}")
        if not fields["title"] and (only is None or qid in only):
            location.refuse(f"has no text for the query {qid!r}")
        topics[qid] = fields
    if not topics:
        raise TourError(f"the topics file {path} holds no topic.")
    integers = found.integers and all(map(_CANONICAL_INTEGER.fullmatch, topics))
    return {int(qid) if integers else qid: fields for qid, fields in topics.items()}


def _topic(location: Location, record: dict[str, Any], position: int | None) -> tuple[str, dict[str, Any]]:
    """The id of a record, which is its position if there is one, and its fields.

    Answers may be a list, a list written as a string, or one string.
    """
    qid, text, answers = (first_field(record, names) for names in (_ID_FIELDS, TEXT_FIELDS, ANSWER_FIELDS))
    if position is not None and qid is not None:
        location.refuse("has a query id, but the first question of the file has none; give all of them ids, or none")
    if position is None and not isinstance(qid, str | int):
        location.refuse(f"has no query id (expected one of {', '.join(_ID_FIELDS)})")
    if not isinstance(text, str):
        location.refuse(f"has no query text (expected one of {', '.join(TEXT_FIELDS)})")
    if isinstance(answers, str):
        answers = _parse_answers(location, answers.strip()) if answers.lstrip().startswith("[") else [answers]
    fields = {"title": text.strip()} | ({} if answers is None else {"answers": location.strings(answers, "answers")})
    return str(qid if position is None else position), fields


def _line_records(path: Path) -> _Records:
    """The records of a file of lines, whose first line decides about the format."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise TourError(f"the topics file {path} is empty.")
    if first.text.startswith("query-id\tcorpus-id"):
        first.refuse("begins BEIR's judgements, not topics; give this file as --qrels")
    lines = chain([first], lines)
    if first.text.lstrip().startswith("{") or inner_suffix(path) == ".jsonl":
        record = first.json_object()
        has_answers, has_id = (first_field(record, names) is not None for names in (ANSWER_FIELDS, _ID_FIELDS))
        numbered = "question" in record and has_answers and not has_id  # as Pyserini's DprJsonlTopicReader
        return _Records(((line, line.json_object()) for line in lines), numbered, numbered)
    is_dpr = _is_dpr(first)
    return _Records(((line, (_dpr_record if is_dpr else _tsv_record)(line)) for line in lines), is_dpr, True)


def _is_dpr(first: Location) -> bool:
    """Whether the second of two columns is a list, or a list with an error in it."""
    columns = _dpr_columns(first)
    if len(columns) != 2 or not columns[1].startswith("["):
        return False
    # The text of a TSV line may begin with a bracket too: "7<TAB>[sic] in quotations".
    return columns[1].endswith("]") or columns[1].startswith(("['", '["')) or len(columns[0].split()) > 1


def _dpr_record(line: Location) -> dict[str, Any]:
    """As Pyserini's DprNqTopicReader."""
    columns = _dpr_columns(line)
    if len(columns) != 2:
        line.refuse("is not a question, a tab and a list of answers")
    return {"question": columns[0], "answers": _parse_answers(line, columns[1])}


def _dpr_columns(line: Location) -> list[str]:
    """The columns, without the quotes that a CSV writer puts around a column that contains quotes."""
    return [column.strip() for column in next(csv.reader([line.text], delimiter="\t"))]


def _tsv_record(line: Location) -> dict[str, Any]:
    """As Pyserini's TsvIntTopicReader and TsvStringTopicReader, which ignore further columns."""
    columns = line.text.split("\t")
    if len(columns) < 2:
        line.refuse("has no tab between a query id and a text")
    return {"id": columns[0].strip(), "question": columns[1]}


def _json_records(path: Path, value: Any) -> _Records | None:
    """The records of a JSON value; None for Pyserini's own layout, `{id: {"title": text}, ...}`."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return _Records(_squad_records(path, value))
    if isinstance(value, list):  # as DPR and EntityQuestions publish them; other fields are ignored
        numbered = not any(first_field(record, _ID_FIELDS) is not None for record in value[:1])
        entries = ((Location(path, f"entry [{position}]"), record) for position, record in enumerate(value))
        return _Records(entries, numbered, integers=numbered)
    if not (isinstance(value, dict) and value and all(isinstance(record, dict) for record in value.values())):
        raise TourError(f"{path} has no known format: expected a list of questions, SQuAD's layout, or Pyserini's.")
    if all(isinstance(topic.get("title"), str) for topic in value.values()):
        return None
    results = ((Location(path, f"query {qid!r}"), record | {"_id": qid}) for qid, record in value.items())
    return _Records(results)


def _squad_records(path: Path, value: dict[str, Any]) -> Iterator[tuple[Location, dict[str, Any]]]:
    """The questions of SQuAD 1.1, SQuAD 2.0 and XQuAD, in file order; equal answers are there once, in order."""
    for a, article in enumerate(value["data"]):
        for p, paragraph in enumerate(article["paragraphs"]):
            for q, question in enumerate(paragraph["qas"]):
                answers = list(dict.fromkeys(answer["text"] for answer in question["answers"]))
                yield Location(path, f"data[{a}].paragraphs[{p}].qas[{q}]"), question | {"answers": answers}
