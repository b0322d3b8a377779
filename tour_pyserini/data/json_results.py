"""Read and write retrieval results as JSON: Pyserini's object by question id, or DPR's list."""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tour_pyserini.data.input_files import Entry, json_object, load_json, read_lines
from tour_pyserini.data.texts import one_line_parts
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write

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
    answering: Mapping[str, set[str]],
    *,
    layout: str = "pyserini",
) -> None:
    """Write the passages that were retrieved for each question; only one question is in memory at a time.

    Args:
        path: the file to write; if anything fails, it is not written.
        questions: all questions; those without hits are written too, because evaluations average over all.
        retrieved: hits by question id, best first.
        texts: docid to passage.
        answering: docids of the passages that contain an answer, by question id.
        layout: `pyserini`, `{id: {"question", "answers", "contexts": [{"docid", "score", "text", "has_answer"}]}}`
            with `title`, a line break and `text` as the text; or `dpr`, `[{"id", "question", "answers", "ctxs":
            [{"id", "title", "text", "score", "has_answer"}]}]`. Scores are strings in both.
    """
    if layout not in LAYOUTS:
        raise TourError(f"unknown layout {layout!r}; choose one of {', '.join(LAYOUTS)}.")
    opening, as_json, closing = LAYOUTS[layout]
    with atomic_write(path) as file:
        file.write(opening)
        for position, question in enumerate(questions):
            with_answer = answering[question.qid]
            contexts = [
                Context(hit.doc_id, hit.score, *one_line_parts(texts[hit.doc_id]), hit.doc_id in with_answer)
                for hit in retrieved[question.qid]
            ]
            file.write(f"{',' if position else ''}\n{as_json(question, contexts)}")
        file.write(f"\n{closing}\n")


def read_dpr_json(path: str | os.PathLike[str]) -> Iterator["ScoredDoc"]:
    """Read the hits of a file of retrieval results, in the order of the file.

    Args:
        path: Pyserini's layout, whose keys are the question ids; or DPR's list, where the position of a question
            (0, 1, 2, ...) is its id if it has no `id`; Pyserini numbers the same questions in the same way.

    Yields:
        One hit per context.
    """
    from ir_measures import ScoredDoc

    for question, qid, contexts in _questions(Path(path)):
        seen = set()
        for position, context in enumerate(contexts):
            entry = question._replace(where=f"{question.where}, context [{position}]")
            if not isinstance(context, dict):
                entry.refuse("is not a JSON object")
            docid = _id(entry, context.get("docid", context.get("id")), "passage id")
            if docid in seen:
                entry.refuse(f"lists document {docid!r} a second time")
            seen.add(docid)
            yield ScoredDoc(qid, docid, _score(entry, context.get("score")))


def _as_pyserini(question: Question, contexts: Sequence[Context]) -> str:
    found = [
        {"docid": docid, "score": str(score), "text": f"{title}\n{text}", "has_answer": has_answer}
        for docid, score, title, text, has_answer in contexts
    ]
    record = {"question": question.text, "answers": question.answers, "contexts": found}
    return f"{json.dumps(question.qid)}: {json.dumps(record)}"


def _as_dpr(question: Question, contexts: Sequence[Context]) -> str:
    found = [
        {"id": docid, "title": title, "text": text, "score": str(score), "has_answer": has_answer}
        for docid, score, title, text, has_answer in contexts
    ]
    return json.dumps({"id": question.qid, "question": question.text, "answers": question.answers, "ctxs": found})


class _Layout(NamedTuple):
    opening: str
    as_json: Callable[[Question, Sequence[Context]], str]
    closing: str


LAYOUTS: Mapping[str, _Layout] = MappingProxyType(
    {"pyserini": _Layout("{", _as_pyserini, "}"), "dpr": _Layout("[", _as_dpr, "]")}
)


def _questions(path: Path) -> Iterator[tuple[Entry, str, list[Any]]]:
    """The location, id and contexts of each question."""
    value = load_json(path)
    if isinstance(value, dict):
        for key, record in value.items():
            entry = Entry(path, f"question {key!r}")
            yield entry, _id(entry, key, "id"), _contexts(entry, record, "contexts")
    elif isinstance(value, list):
        seen = set()
        for position, record in enumerate(value):
            entry = Entry(path, f"entry [{position}]")
            contexts = _contexts(entry, record, "ctxs")
            qid = _id(entry, record.get("id", position), "id")
            if qid in seen:
                entry.refuse(f"repeats the question id {qid!r}")
            seen.add(qid)
            yield entry, qid, contexts
    else:
        raise TourError(f"{path} holds no retrieval results: expected a JSON object by question id, or a list.")


def _contexts(entry: Entry, record: Any, name: str) -> list[Any]:
    contexts = record.get(name) if isinstance(record, dict) else None
    if not isinstance(contexts, list):
        entry.refuse(f"has no list `{name}`")
    return contexts


def _id(entry: Entry, value: Any, what: str) -> str:
    column = "" if isinstance(value, bool) or not isinstance(value, str | int) else str(value)
    # JSON can contain half of an escaped surrogate pair.
    if column.split() != [column] or any("\ud800" <= character <= "\udfff" for character in column):
        entry.refuse(f"has no {what} that can be written to a run file")
    return column


def _score(entry: Entry, value: Any) -> float:
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        entry.refuse(f"has the score {value!r:.40}, which is not a number")
    return score


def read_predictions(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read predictions: lines `{"qid": "q1", "answer": "Linda Davis", "score": 3.2}`.

    Returns:
        Answers by question id, best score first, equal scores in the order of the file. If no line of the file has
        a score, the order of the file is kept.
    """
    by_question: dict[str, list[tuple[float, str]]] = {}
    scored: bool | None = None
    for line in read_lines(path):
        record = json_object(line)
        qid, answer, score = record.get("qid"), record.get("answer"), record.get("score")
        if isinstance(qid, bool) or not isinstance(qid, str | int):
            line.refuse("has no question id `qid`")
        if not isinstance(answer, str):
            line.refuse("has no string `answer`")
        if scored is None:
            scored = score is not None
        value = _number(score) if scored else 0.0
        if not math.isfinite(value):
            line.refuse(f"has the score {score!r:.40}, which is not a number")
        if not scored and score is not None:
            line.refuse("has a score, but the lines before it have none; give every line a score, or none")
        by_question.setdefault(str(qid), []).append((value, answer))
    if not by_question:
        raise TourError(f"{path} holds no predictions.")
    return {
        qid: [answer for _, answer in sorted(predictions, key=lambda prediction: -prediction[0])]
        for qid, predictions in by_question.items()
    }


def _number(score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        return math.nan
    try:
        return float(score)
    except OverflowError:
        return math.inf


def write_predictions(file: IO[str], qid: str, hits: Sequence[Any]) -> None:
    """Write the phrases found for a question, one line each: `qid`, `answer`, `score`, `passage` (a docid) and `span`.

    The span is in characters of the passage's text: `text[span[0]:span[1]]` is the answer.
    """
    for hit in hits:
        score = round(hit.score, 6)
        line = {"qid": qid, "answer": hit.text, "score": score, "passage": hit.docid, "span": [hit.begin, hit.end]}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
