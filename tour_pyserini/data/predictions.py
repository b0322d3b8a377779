"""Predicted answers as JSON lines."""

import json
import math
import os
from collections.abc import Sequence
from typing import IO, Any

from tour_pyserini.data.lines import read_lines
from tour_pyserini.data.topic_formats import json_object
from tour_pyserini.errors import TourError


def read_predictions(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read predictions: lines `{"qid": "q1", "answer": "Linda Davis", "score": 3.2}`.

    Returns:
        Answers by question id, best score first, equal scores in the order of the file. Scores may be left out of
        the whole file; its order then counts.
    """
    found: dict[str, list[tuple[float, str]]] = {}
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
            line.refuse("has a score, and lines before it have none; give all of them or none")
        found.setdefault(str(qid), []).append((value, answer))
    if not found:
        raise TourError(f"{path} holds no predictions.")
    return {qid: [answer for _, answer in sorted(each, key=_worst_last)] for qid, each in found.items()}


def _number(score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        return math.nan
    try:
        return float(score)
    except OverflowError:
        return math.inf


def _worst_last(prediction: tuple[float, str]) -> float:
    return -prediction[0]


def write_predictions(file: IO[str], qid: str, hits: Sequence[Any]) -> None:
    """Write a question's phrases, best first : `qid`, `answer`, `score`, `passage`, and `span`, its place there.

    The span is in characters of the passage's text: `text[span[0]:span[1]]` is the answer.
    """
    for hit in hits:
        score = round(hit.score, 6)
        line = {"qid": qid, "answer": hit.text, "score": score, "passage": hit.docid, "span": [hit.begin, hit.end]}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
