"""Results as JSON: retrieved passages in Pyserini's and in DPR's layout, and predicted answers as JSON lines."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tour_pyserini.data.input_files import Location, first_field, is_column, load_json, read_lines
from tour_pyserini.data.texts import one_line_parts
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

LAYOUTS = ("pyserini", "dpr")


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
    is_dpr = layout == "dpr"
    with atomic_write(path) as file:
        file.write("[" if is_dpr else "{")
        for position, (qid, text, answers) in enumerate(questions):
            record: dict[str, Any] = {"question": text, "answers": answers}
            contexts: list[dict[str, Any]] = []
            for _, docid, score in retrieved[qid]:
                title, text = one_line_parts(texts[docid])
                if is_dpr:
                    context = {"id": docid, "title": title, "text": text, "score": str(score)}
                else:
                    context = {"docid": docid, "score": str(score), "text": f"{title}\n{text}"}
                contexts.append({**context, "has_answer": docid in answering[qid]})
            if is_dpr:
                entry = json.dumps({"id": qid, **record, "ctxs": contexts})
            else:
                entry = f"{json.dumps(qid)}: {json.dumps({**record, 'contexts': contexts})}"
            file.write(f"{',' if position else ''}\n{entry}")
        file.write("\n]\n" if is_dpr else "\n}\n")


def read_dpr_json(path: str | os.PathLike[str]) -> Iterator["ScoredDoc"]:
    """Read the hits of a file of retrieval results, in the order of the file.

    Args:
        path: Pyserini's layout, whose keys are the question ids; or DPR's list, where the position of a question
            (0, 1, 2, ...) is its id if it has no `id`; Pyserini numbers the same questions in the same way.

    Yields:
        One hit per context.
    """
    from ir_measures import ScoredDoc

    value = load_json(path)
    is_list, name = isinstance(value, list), "ctxs" if isinstance(value, list) else "contexts"
    for key, record in enumerate(value) if is_list else value.items():
        entry = Location(Path(path), f"entry [{key}]" if is_list else f"question {key!r}")
        contexts = record.get(name) if isinstance(record, dict) else None
        if not isinstance(contexts, list):
            entry.refuse(f"has no list `{name}`")
        qid = str(record.get("id", key) if is_list else key)
        for position, context in enumerate(contexts):
            place = entry._replace(where=f"{entry.where}, context [{position}]")
            docid = first_field(context, ("docid", "id"))
            docid = "" if docid is None else str(docid)
            if not (is_column(qid) and is_column(docid)):
                place.refuse(f"has the question id {qid!r} and the passage id {docid!r}, which no run file can have")
            yield ScoredDoc(qid, docid, place.number(context.get("score"), "score"))


def read_predictions(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read predictions: lines `{"qid": "q1", "answer": "Linda Davis", "score": 3.2}`.

    Returns:
        Answers by question id, best score first, equal scores in the order of the file; a line without one has 0.
    """
    by_question: dict[str, list[tuple[float, str]]] = {}
    for line in read_lines(path):
        record = line.json_object()
        qid, answer = record.get("qid"), record.get("answer")
        if not isinstance(qid, str | int) or not isinstance(answer, str):
            line.refuse("has no question id `qid`, or no string `answer`")
        score = line.number(record.get("score", 0), "score")
        by_question.setdefault(str(qid), []).append((score, answer))
    if not by_question:
        raise TourError(f"{path} holds no predictions.")
    return {
        qid: [answer for _, answer in sorted(predictions, key=lambda prediction: -prediction[0])]
        for qid, predictions in by_question.items()
    }


def write_predictions(file: IO[str], qid: str, hits: Sequence[Any]) -> None:
    """Write the phrases found for a question, one line each: `qid`, `answer`, `score`, `passage` (a docid) and `span`.

    The span is in characters of the passage's text: `text[span[0]:span[1]]` is the answer.
    """
    for hit in hits:
        score = round(hit.score, 6)
        line = {"qid": qid, "answer": hit.text, "score": score, "passage": hit.docid, "span": [hit.begin, hit.end]}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
