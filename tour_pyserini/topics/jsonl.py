"""Topics as one JSON object per line: BEIR's queries.jsonl, or questions with answers."""

import json
from typing import Any

from tour_pyserini.topics.json_record import ANSWER_FIELDS, ID_FIELDS, first_of, numbered_record_topic, record_topic
from tour_pyserini.topics.lines import Line
from tour_pyserini.topics.topic import Topic


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
