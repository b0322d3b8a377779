"""A query path as the events that the service sends of a search, which the page shows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.documents import one_line_parts
from tour_pyserini.evaluation.path_map import projected
from tour_pyserini.evaluation.query_path import FinalHit, PathRound, first_words

LENGTH = 240  # characters of a passage that a list shows
ROUND_NOTE = "The retrieval: the passages most similar to the query's vector first."
FINAL_NOTE = "What the search returns: similarities and labels combined."


class _Line(NamedTuple):
    """One line of a list; what is not known is None."""

    docid: str
    label: float | None
    similarity: float | None


def as_events(
    path: Sequence[PathRound],
    texts: Mapping[str, str],
    *,
    final: Sequence[FinalHit] = (),
    shown: int = 10,
    vectors: Mapping[str, Floats] | None = None,
) -> Iterator[dict[str, Any]]:
    """The event `round` for each round of a path, and one for the final list.

    The fields are those of the service's messages. A trace tells neither times nor the scores that rank a list: these
    fields are left out, and the candidates of a round are in the order of similarity. `name` and `note` are what the
    page writes above the list.

    Args:
        path: the query's rounds.
        texts: docid to passage.
        final: the list that the search returned.
        shown: candidates per list.
        vectors: docid to vector [d] of every candidate, for the map; the path has the query vectors then.
    """
    labelled: set[str] = set()
    before: list[_Line] = []
    for number in range(len(path) + bool(final)):
        t = min(number, len(path) - 1)
        is_final = number > t
        lines = _final_lines(final, before) if is_final else _lines(path[t])
        bought = {line.docid for line in lines if line.label is not None} - labelled
        labelled |= bought
        ranks = {line.docid: rank for rank, line in enumerate(before, start=1)}
        similarities = {} if is_final else {line.docid: line.similarity for line in before}
        found = {line.docid for line in lines}
        yield {
            "event": "round",
            "data": {
                "name": "Final list" if is_final else _name(t),
                "note": FINAL_NOTE if is_final else ROUND_NOTE,
                "number": number,
                "t": t,
                "candidates": [
                    _words(line.docid, texts)
                    | line._asdict()
                    | {
                        "rank": rank,
                        "bought": line.docid in bought,
                        "rank_before": ranks.get(line.docid),
                        "similarity_before": similarities.get(line.docid),
                    }
                    for rank, line in enumerate(lines[:shown], start=1)
                ],
                "new": [line.docid for line in lines if line.docid not in ranks],
                "gone": [line.docid for line in before if line.docid not in found],
                "cosine": path[t].cosine,
                "stop": path[t].stop_reason,
                "map": _map(path[: t + 1], vectors) if vectors else None,
                "costs": {"labels": len(labelled), "updates": t},
            },
        }
        before = lines


def _lines(one: PathRound) -> list[_Line]:
    similarities: Sequence[float | None] = one.similarities or [None] * len(one.docids)
    return [_Line(*line) for line in zip(one.docids, map(_known, one.labels), similarities, strict=False)]


def _final_lines(final: Sequence[FinalHit], last: Sequence[_Line]) -> list[_Line]:
    similarities = {line.docid: line.similarity for line in last}
    return [_Line(hit.docid, _known(hit.label), similarities.get(hit.docid)) for hit in final]


def _known(label: float) -> float | None:
    return None if math.isnan(label) else label


def _name(t: int) -> str:
    return "First retrieval" if t == 0 else f"After {t} update{'s' * (t > 1)}"


def _words(docid: str, texts: Mapping[str, str]) -> dict[str, str]:
    title, text = one_line_parts(texts[docid])
    return {"title": title, "words": first_words(text, LENGTH)}


def _map(path: Sequence[PathRound], vectors: Mapping[str, Floats]) -> dict[str, Any]:
    """The map of the queries so far and the candidates of their rounds."""
    docids = list(dict.fromkeys(docid for one in path for docid in one.docids))
    places = projected(np.array([one.query for one in path]), np.array([vectors[docid] for docid in docids]))
    return {
        "queries": places.queries.round(6).tolist(),
        "candidates": dict(zip(docids, places.candidates.round(6).tolist(), strict=True)),
    }
