"""Topics as one JSON object per line: BEIR's queries.jsonl, or questions with answers."""

import json
from typing import Any

from tour_pyserini.topics.lines import Line
from tour_pyserini.topics.topic import Topic, checked_answers, checked_topic

ID_FIELDS = ("_id", "id", "qid", "query_id")
TEXT_FIELDS = ("text", "query", "question", "title")
ANSWER_FIELDS = ("answers", "answer")


def lacks_id(line: Line) -> bool:
    """Whether this is a question with answers and without an id: the file is then numbered as DPR's are."""
    record = _record(line)
    answers = _first(record, ANSWER_FIELDS)
    return _first(record, ID_FIELDS) is None and "question" in record and answers is not None


def json_topic(line: Line, position: int) -> Topic:
    """The topic on a line that has its own id."""
    record = _record(line)
    qid = _first(record, ID_FIELDS)
    if isinstance(qid, bool) or not isinstance(qid, str | int):
        line.refuse(f"has no query id (expected one of {', '.join(ID_FIELDS)})")
    return _topic(line, str(qid), record)


def numbered_json_topic(line: Line, position: int) -> Topic:
    """The topic on a line without an id; its position becomes its id, as Pyserini's DprJsonlTopicReader has it."""
    return _topic(line, str(position), _record(line))


def _topic(line: Line, qid: str, record: dict[str, Any]) -> Topic:
    text, answers = _first(record, TEXT_FIELDS), _first(record, ANSWER_FIELDS)
    if not isinstance(text, str):
        line.refuse(f"has no query text (expected one of {', '.join(TEXT_FIELDS)})")
    if isinstance(answers, str):
        answers = [answers]
    return checked_topic(line, qid, text, None if answers is None else checked_answers(line, answers))


def _record(line: Line) -> dict[str, Any]:
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError):
        line.refuse("is not JSON")
    if not isinstance(record, dict):
        line.refuse("is not a JSON object")
    return record


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)
