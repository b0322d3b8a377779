"""Answers as JSON lines, as `tour_pyserini.evaluation.predictions` reads them."""

import json
from collections.abc import Sequence
from typing import IO

from tour_pyserini.phrases.searcher import PhraseHit


def write_predictions(file: IO[str], qid: str, hits: Sequence[PhraseHit]) -> None:
    """Write a question's phrases, best first: `qid`, `answer`, `score`, `passage`, and `span`, its place there.

    The span is in characters of the passage's text: `text[span[0]:span[1]]` is the answer.
    """
    for hit in hits:
        score = round(hit.score, 6)
        line = {"qid": qid, "answer": hit.text, "score": score, "passage": hit.docid, "span": [hit.begin, hit.end]}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
