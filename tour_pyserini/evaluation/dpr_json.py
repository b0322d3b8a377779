"""Retrieval results as JSON: Pyserini's layout by question id, and the list that DPR and its readers use."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_texts import title_and_text
from tour_pyserini.files import written_whole
from tour_pyserini.topics.questions import Question

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
                Context(hit.doc_id, hit.score, *title_and_text(texts[hit.doc_id]), hit.doc_id in found[question.qid])
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
