"""The formats of topic files: TSV, DPR, JSON lines, JSON lists, SQuAD and Pyserini's retrieval results."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import chain
from pathlib import Path
from typing import Any

from tour_pyserini.data.lines import Entry, Line, Place, load_json, read_lines
from tour_pyserini.data.topic import Topic, checked_answers, checked_topic, parse_answers, with_text
from tour_pyserini.errors import TourError


def tsv_topic(line: Line, position: int) -> Topic:
    """The topic on a line, as Pyserini's TsvIntTopicReader and TsvStringTopicReader read it."""
    columns = line.text.split("\t")
    if len(columns) < 2:
        line.refuse("has no tab between a query id and a text")
    if any(column.strip() for column in columns[2:]):
        line.refuse(f"has {len(columns)} columns where an id and a text were expected")
    return checked_topic(line, columns[0].strip(), columns[1])


def looks_like_dpr(line: Line) -> bool:
    """Whether the second of two columns is written as a list, be it a broken one."""
    columns = _columns(line)
    if len(columns) != 2 or not columns[1].startswith("["):
        return False
    # The text after an id may begin with a bracket too: "7<TAB>[sic] in quotations".
    return columns[1].endswith("]") or columns[1].startswith(("['", '["')) or len(columns[0].split()) > 1


def dpr_topic(line: Line, position: int) -> Topic:
    """The topic on a line; its id is its position, 0, 1, 2, ..., as Pyserini's DprNqTopicReader has it."""
    columns = _columns(line)
    if len(columns) != 2:
        line.refuse("is not a question, a tab and a list of answers")
    return checked_topic(line, str(position), columns[0], parse_answers(line, columns[1]))


def _columns(line: Line) -> list[str]:
    """Columns, without the quotes that the files' CSV writer put around those that contain quotes."""
    try:
        return [column.strip() for column in next(csv.reader([line.text], delimiter="\t"))]
    except csv.Error as error:
        line.refuse(f"cannot be split into columns ({error})")


ID_FIELDS = ("_id", "id", "qid", "query_id")
TEXT_FIELDS = ("question", "text", "query", "title")  # a record with a question may have a passage as its text
ANSWER_FIELDS = ("answers", "answer")


def record_topic(place: Place, record: dict[str, Any]) -> Topic:
    """The topic in a record that has its own id."""
    qid = first_of(record, ID_FIELDS)
    if isinstance(qid, bool) or not isinstance(qid, str | int):
        place.refuse(f"has no query id (expected one of {', '.join(ID_FIELDS)})")
    return topic_with_id(place, str(qid), record)


def numbered_record_topic(place: Place, position: int, record: dict[str, Any]) -> Topic:
    """The topic in a record without an id; its position, counted from 0, becomes its id."""
    if first_of(record, ID_FIELDS) is not None:
        place.refuse("has a query id, but the first question of the file has none; give all of them ids, or none")
    return topic_with_id(place, str(position), record)


def first_of(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of these fields that is there and is not null; None if there is none."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def topic_with_id(place: Place, qid: str, record: dict[str, Any]) -> Topic:
    """The topic in a record whose id is known; answers may be a list, a list written as a string, or one string."""
    text, answers = first_of(record, TEXT_FIELDS), first_of(record, ANSWER_FIELDS)
    if not isinstance(text, str):
        place.refuse(f"has no query text (expected one of {', '.join(TEXT_FIELDS)})")
    if isinstance(answers, str):
        answers = parse_answers(place, answers.strip()) if answers.lstrip().startswith("[") else [answers]
    return checked_topic(place, qid, text, None if answers is None else checked_answers(place, answers))


def lacks_id(line: Line) -> bool:
    """Whether this is a question with answers and without an id: the file is then numbered as DPR's are."""
    record = json_object(line)
    answers = first_of(record, ANSWER_FIELDS)
    return first_of(record, ID_FIELDS) is None and "question" in record and answers is not None


def json_topic(line: Line, position: int) -> Topic:
    """The topic on a line that has its own id."""
    return record_topic(line, json_object(line))


def numbered_json_topic(line: Line, position: int) -> Topic:
    """The topic on a line without an id; its position becomes its id, as Pyserini's DprJsonlTopicReader has it."""
    return numbered_record_topic(line, position, json_object(line))


def json_object(line: Line) -> dict[str, Any]:
    """The JSON object that is the line; the line is refused if it is anything else."""
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError):
        line.refuse("is not JSON")
    if not isinstance(record, dict):
        line.refuse("is not a JSON object")
    return record


def has_ids(entries: list[Any]) -> bool:
    """Whether the entries have ids of their own; others are numbered 0, 1, 2, ..., as Pyserini numbers questions."""
    return bool(entries) and isinstance(entries[0], dict) and first_of(entries[0], ID_FIELDS) is not None


def dpr_json_topics(path: Path, entries: list[Any]) -> Iterator[tuple[Place, Topic]]:
    """The topics of `[{"question": ..., "answers": [...], ...}, ...]`; other fields are passed over."""
    own_ids = has_ids(entries)
    for position, record in enumerate(entries):
        place = Entry(path, f"entry [{position}]")
        if not isinstance(record, dict):
            place.refuse("is not a JSON object")
        topic = record_topic(place, record) if own_ids else numbered_record_topic(place, position, record)
        if topic.answers is None:
            place.refuse("has no answers")
        yield place, topic


def retrieval_json_topics(path: Path, records: dict[str, dict[str, Any]]) -> Iterator[tuple[Place, Topic]]:
    """The topics of `{id: {"question": ..., "answers": [...], "contexts": [...]}, ...}`; contexts are passed over."""
    for qid, record in records.items():
        place = Entry(path, f"query {qid!r}")
        yield place, topic_with_id(place, qid, record)


def looks_like_squad(value: Any) -> bool:
    """Whether a JSON file is an object with a list `data`, as SQuAD 1.1, SQuAD 2.0 and XQuAD are."""
    return isinstance(value, dict) and isinstance(value.get("data"), list)


def squad_topics(path: Path, value: dict[str, Any]) -> Iterator[tuple[Place, Topic]]:
    """The questions in file order; equal answers of several annotators are kept once, in order."""
    for place, question in _below(path, "", value, ("data", "paragraphs", "qas")):
        answers = question.get("answers")
        if not isinstance(answers, list) or not all(
            isinstance(one, dict) and isinstance(one.get("text"), str) for one in answers
        ):
            place.refuse("does not have a list of answers, each with a text")
        texts = list(dict.fromkeys(one["text"] for one in answers))
        fields = {"id": question.get("id"), "question": question.get("question"), "answers": texts}
        yield place, record_topic(place, fields)


def _below(path: Path, where: str, value: dict[str, Any], names: tuple[str, ...]) -> Iterator[tuple[Entry, dict]]:
    """The objects at the end of nested lists, each with its place, such as `data[0].paragraphs[2].qas[1]`."""
    name, *deeper = names
    for position, one in enumerate(value[name]):
        place = Entry(path, f"{where}{name}[{position}]")
        if not isinstance(one, dict):
            place.refuse("is not a JSON object")
        if not deeper:
            yield place, one
        elif isinstance(one.get(deeper[0]), list):
            yield from _below(path, f"{place.where}.", one, tuple(deeper))
        else:
            place.refuse(f"has no list `{deeper[0]}`")


LINES = {".tsv", ".txt", ".csv", ".jsonl"}  # DPR names its tab-separated questions .csv
CANONICAL_INTEGER = re.compile("0|[1-9][0-9]{0,17}")  # longer ones need not fit in 64 bits

Topics = dict[int | str, dict[str, Any]]


def local_topics(path: Path, only: Set[str] | None = None) -> Topics | None:
    """Topics by id, as Pyserini has them: `{id: {"title": text, "answers": [...]}}`.

    Args:
        path: the file.
        only: ids of the topics that are wanted, all if not given; of others not even a text is asked.

    Returns:
        None for what only Pyserini reads: its own `.json`, its names for topics, other endings.
    """
    kind = _kind(path)
    if kind == ".json":
        return _from_json(path, only)
    return _from_lines(path, only) if kind in LINES else None


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _from_json(path: Path, only: Set[str] | None) -> Topics | None:
    value = load_json(path)
    if looks_like_squad(value):
        return _by_id(path, squad_topics(path, value), only, integers=False)
    if isinstance(value, list):
        return _by_id(path, dpr_json_topics(path, value), only, integers=not has_ids(value))
    if isinstance(value, dict) and value and all(isinstance(topic, dict) for topic in value.values()):
        if all(isinstance(topic.get("title"), str) for topic in value.values()):
            return None
        return _by_id(path, retrieval_json_topics(path, value), only, integers=False)
    raise TourError(f"{path} is neither a list of questions with answers, nor in SQuAD's layout, nor Pyserini's.")


def _from_lines(path: Path, only: Set[str] | None) -> Topics:
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise TourError(f"the topics file {path} is empty.")
    parse = _format(first)
    # Pyserini has integers where ids are integers ("007" is not one); JSON says itself what is a string.
    return _by_id(path, _parsed(parse, chain([first], lines)), only, integers=parse is not json_topic)


def _parsed(parse: Callable[[Line, int], Topic], lines: Iterable[Line]) -> Iterator[tuple[Place, Topic]]:
    return ((line, parse(line, position)) for position, line in enumerate(lines))


def _format(first: Line) -> Callable[[Line, int], Topic]:
    """The function (line, position) -> Topic for a file that begins with this line."""
    if first.text.lstrip().startswith("{") or _kind(first.path) == ".jsonl":
        return numbered_json_topic if lacks_id(first) else json_topic
    return dpr_topic if looks_like_dpr(first) else tsv_topic


def _by_id(path: Path, topics: Iterable[tuple[Place, Topic]], only: Set[str] | None, *, integers: bool) -> Topics:
    found: dict[str, Topic] = {}
    for place, topic in topics:
        if topic.qid in found:
            place.refuse(f"repeats the query id {topic.qid!r}")
        found[topic.qid] = topic if only is not None and topic.qid not in only else with_text(place, topic)
    if not found:
        raise TourError(f"the topics file {path} holds no topic.")
    integers = integers and all(map(CANONICAL_INTEGER.fullmatch, found))
    return {int(qid) if integers else qid: _fields(topic) for qid, topic in found.items()}


def _fields(topic: Topic) -> dict[str, Any]:
    return {"title": topic.text} | ({} if topic.answers is None else {"answers": topic.answers})
