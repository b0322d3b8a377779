"""One query of a topics file, checked."""

import ast
import json
from typing import Any, NamedTuple

from tour_pyserini.data.lines import Place


class Topic(NamedTuple):
    """A query's id and text, and the answers where the file has them."""

    qid: str
    text: str
    answers: list[str] | None = None


def checked_topic(place: Place, qid: str, text: str, answers: list[str] | None = None) -> Topic:
    """A topic that a run file can hold: an id in UTF-8 without white space."""
    if not qid:
        place.refuse("has an empty query id")
    if qid.split() != [qid]:
        place.refuse(f"has white space in the query id {qid!r}, which no run file can hold")
    if any("\ud800" <= character <= "\udfff" for character in qid):
        place.refuse(f"has half a surrogate pair in the query id {qid!r}, which no UTF-8 file can hold")
    return Topic(qid, text.strip(), answers)


def with_text(place: Place, topic: Topic) -> Topic:
    """The topic, if its text is not empty."""
    if not topic.text:
        place.refuse(f"has no text for the query {topic.qid!r}")
    return topic


def parse_answers(place: Place, written: str) -> list[str]:
    """A list of strings as JSON or Python writes it. Only literals are read; nothing is evaluated."""
    for parse in (json.loads, ast.literal_eval):
        try:
            answers = parse(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return checked_answers(place, answers)
    place.refuse("does not have a list of strings as its answers")


def checked_answers(place: Place, answers: Any) -> list[str]:
    """The value itself, if it is a list of strings."""
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        place.refuse("does not have a list of strings as its answers")
    return answers
