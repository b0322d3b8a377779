"""Read and write predicted answers as JSON lines."""

import json
import math
import os
from collections.abc import Sequence
from typing import IO, Any

from tour_pyserini.data.input_files import json_object, read_lines
from tour_pyserini.errors import TourError


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
