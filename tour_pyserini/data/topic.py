"""One topic of a topics file, and the checks of its id, text and answers."""

import ast
import json
import re
from typing import Any, NamedTuple

from tour_pyserini.data.lines import Location

# A list of quoted texts and nothing inside it: what is nested deeply can overflow the stack of a parser.
_STRING = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")"""
_TEXT = rf"{_STRING}(?:\s*{_STRING})*+"  # Python joins strings that stand side by side
_FLAT_LIST = re.compile(rf"\s*\[\s*(?:{_TEXT}\s*,\s*)*+(?:{_TEXT}\s*)?+\]\s*", re.DOTALL)


class Topic(NamedTuple):
    """The id and text of a query, and its answers where the file has them."""

    qid: str
    text: str
    answers: list[str] | None = None


def checked_topic(location: Location, qid: str, text: str, answers: list[str] | None = None) -> Topic:
    """Make a topic; an id that cannot be written to a run file is refused."""
    if not qid:
        location.refuse("has an empty query id")
    if qid.split() != [qid]:
        location.refuse(f"has white space in the query id {qid!r}; run files do not allow it")
    if any("\ud800" <= character <= "\udfff" for character in qid):
        location.refuse(f"has half a surrogate pair in the query id {qid!r}, which cannot be written as UTF-8")
    return Topic(qid, text.strip(), answers)


def require_text(location: Location, topic: Topic) -> None:
    """Refuse a topic whose text is empty."""
    if not topic.text:
        location.refuse(f"has no text for the query {topic.qid!r}")


def parse_answers(location: Location, written: str) -> list[str]:
    """Parse a list of strings, written as JSON or as a Python literal. No code is evaluated."""
    for parse in (json.loads, ast.literal_eval) if _FLAT_LIST.fullmatch(written) else ():
        try:
            answers = parse(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return checked_answers(location, answers)
    location.refuse("does not have a list of strings as its answers")


def checked_answers(location: Location, answers: Any) -> list[str]:
    """The value unchanged, if it is a list of strings; any other value is refused."""
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        location.refuse("does not have a list of strings as its answers")
    return answers
