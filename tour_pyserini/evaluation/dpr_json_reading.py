"""Hits from retrieval results as JSON, in either layout."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.errors import TourError
from tour_pyserini.topics.json_file import load_json
from tour_pyserini.topics.place import Entry

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


def read_dpr_json(path: str | os.PathLike[str]) -> Iterator["ScoredDoc"]:
    """Read hits, in the order of the file.

    Args:
        path: Pyserini's layout, whose keys are the question ids; or DPR's list, where a question without an `id` has
            its position, 0, 1, 2, ..., as Pyserini numbers the same questions.

    Yields:
        Hits; a question without contexts has none.
    """
    from ir_measures import ScoredDoc

    for question, qid, contexts in _questions(Path(path)):
        seen = set()
        for position, context in enumerate(contexts):
            place = question._replace(where=f"{question.where}, context [{position}]")
            if not isinstance(context, dict):
                place.refuse("is not a JSON object")
            docid = _id(place, context.get("docid", context.get("id")), "passage id")
            if docid in seen:
                place.refuse(f"lists document {docid!r} a second time")
            seen.add(docid)
            yield ScoredDoc(qid, docid, _score(place, context.get("score")))


def _questions(path: Path) -> Iterator[tuple[Entry, str, list[Any]]]:
    value = load_json(path)
    if isinstance(value, dict):
        for key, record in value.items():
            place = Entry(path, f"question {key!r}")
            yield place, _id(place, key, "id"), _contexts(place, record, "contexts")
    elif isinstance(value, list):
        seen = set()
        for position, record in enumerate(value):
            place = Entry(path, f"entry [{position}]")
            contexts = _contexts(place, record, "ctxs")
            qid = _id(place, record.get("id", position), "id")
            if qid in seen:
                place.refuse(f"repeats the question id {qid!r}")
            seen.add(qid)
            yield place, qid, contexts
    else:
        raise TourError(f"{path} holds no retrieval results: expected an object by question id, or a list.")


def _contexts(place: Entry, record: Any, name: str) -> list[Any]:
    contexts = record.get(name) if isinstance(record, dict) else None
    if not isinstance(contexts, list):
        place.refuse(f"has no list `{name}`")
    return contexts


def _id(place: Entry, value: Any, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not _fits(str(value)):
        place.refuse(f"has no {what} that a run file can hold")
    return str(value)


def _fits(column: str) -> bool:
    try:
        column.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON can escape
        return False
    return column.split() == [column]


def _score(place: Entry, value: Any) -> float:
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        place.refuse(f"has the score {value!r:.40}, which is not a number")
    return score
