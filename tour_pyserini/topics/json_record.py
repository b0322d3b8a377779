"""One topic as a JSON object, on a line of its own or in a list."""

from typing import Any

from tour_pyserini.topics.place import Place
from tour_pyserini.topics.topic import Topic, checked_answers, checked_topic, parse_answers

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
