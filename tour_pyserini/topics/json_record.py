"""One topic as a JSON object, on a line of its own or in a list."""

from typing import Any

from tour_pyserini.topics.place import Place
from tour_pyserini.topics.topic import Topic, checked_answers, checked_topic

ID_FIELDS = ("_id", "id", "qid", "query_id")
TEXT_FIELDS = ("text", "query", "question", "title")
ANSWER_FIELDS = ("answers", "answer")


def record_topic(place: Place, record: dict[str, Any]) -> Topic:
    """The topic in a record that has its own id."""
    qid = first_of(record, ID_FIELDS)
    if isinstance(qid, bool) or not isinstance(qid, str | int):
        place.refuse(f"has no query id (expected one of {', '.join(ID_FIELDS)})")
    return _topic(place, str(qid), record)


def numbered_record_topic(place: Place, position: int, record: dict[str, Any]) -> Topic:
    """The topic in a record without an id; its position, counted from 0, becomes its id."""
    return _topic(place, str(position), record)


def first_of(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of these fields that is there and is not null; None if there is none."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def _topic(place: Place, qid: str, record: dict[str, Any]) -> Topic:
    text, answers = first_of(record, TEXT_FIELDS), first_of(record, ANSWER_FIELDS)
    if not isinstance(text, str):
        place.refuse(f"has no query text (expected one of {', '.join(TEXT_FIELDS)})")
    if isinstance(answers, str):
        answers = [answers]
    return checked_topic(place, qid, text, None if answers is None else checked_answers(place, answers))
