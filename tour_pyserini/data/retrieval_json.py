"""Retrieval results as JSON: Pyserini's layout by question id, and DPR's list."""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tour_pyserini.data.documents import one_line_parts
from tour_pyserini.data.lines import Entry, load_json
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import written_whole

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


class Context(NamedTuple):
    """A retrieved passage, and whether it contains an answer."""

    docid: str
    score: float
    title: str
    text: str
    has_answer: bool


def write_dpr_json(
    path: str | os.PathLike[str],
    questions: Sequence[Question],
    retrieved: Mapping[str, Sequence["ScoredDoc"]],
    texts: Mapping[str, str],
    found: Mapping[str, set[str]],
    *,
    layout: str = "pyserini",
) -> None:
    """Write what was retrieved, question by question; passages are read as they are written.

    Args:
        path: the file to write, whole or not at all.
        questions: every one is written, also one without hits, so that evaluations average over all.
        retrieved: hits by question id, best first.
        texts: docid to passage.
        found: docids of the passages that contain an answer, by question id.
        layout: `pyserini`, `{id: {"question", "answers", "contexts": [{"docid", "score", "text", "has_answer"}]}}`
            with `title`, a line break and `text` as the text; or `dpr`, `[{"id", "question", "answers", "ctxs":
            [{"id", "title", "text", "score", "has_answer"}]}]`. Scores are strings, as both have them.
    """
    if layout not in LAYOUTS:
        raise TourError(f"there is no layout {layout!r}; choose one of {', '.join(LAYOUTS)}.")
    opening, written, closing = LAYOUTS[layout]
    with written_whole(path) as file:
        file.write(opening)
        for position, question in enumerate(questions):
            contexts = [
                Context(hit.doc_id, hit.score, *one_line_parts(texts[hit.doc_id]), hit.doc_id in found[question.qid])
                for hit in retrieved[question.qid]
            ]
            file.write(f"{',' if position else ''}\n{written(question, contexts)}")
        file.write(f"\n{closing}\n")


def _as_pyserini(question: Question, contexts: Sequence[Context]) -> str:
    entry = {
        "question": question.text,
        "answers": question.answers,
        "contexts": [
            {"docid": one.docid, "score": str(one.score), "text": f"{one.title}\n{one.text}", "has_answer": one[-1]}
            for one in contexts
        ],
    }
    return f"{json.dumps(question.qid)}: {json.dumps(entry)}"


def _as_dpr(question: Question, contexts: Sequence[Context]) -> str:
    ctxs = [
        {"id": one.docid, "title": one.title, "text": one.text, "score": str(one.score), "has_answer": one.has_answer}
        for one in contexts
    ]
    return json.dumps({"id": question.qid, "question": question.text, "answers": question.answers, "ctxs": ctxs})


class _Layout(NamedTuple):
    opening: str
    written: Callable[[Question, Sequence[Context]], str]
    closing: str


LAYOUTS: Mapping[str, _Layout] = MappingProxyType(
    {"pyserini": _Layout("{", _as_pyserini, "}"), "dpr": _Layout("[", _as_dpr, "]")}
)


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
