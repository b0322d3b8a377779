"""The page of one query path: the files of the service's page and the events of the path in one HTML file."""

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.texts import one_line_parts
from tour_pyserini.evaluation.query_path import FinalHit, PathRound, first_words
from tour_pyserini.support.files import atomic_write


class _Projection(NamedTuple):
    """Coordinates of the query vectors [t, 2] and of the candidates [n, 2] on the map."""

    queries: Floats
    candidates: Floats


def projected(queries: Floats, candidates: Floats) -> _Projection:
    """Project the query vectors of each round [t, d] and the candidates [n, d] to two dimensions.

    All vectors are scaled to unit length first; the first query vector is the origin. The first axis points from the
    first query vector to the last, so that the query moves to the right. The second axis is the direction, orthogonal
    to the first, in which the candidates differ most from each other. If the query did not move, the axes are the
    candidates' two main directions.
    """
    origin, *_ = moved = _unit(queries)
    moved, others = moved - origin, _unit(candidates) - origin
    centred = others - others.mean(axis=0) if len(others) else others
    away = np.linalg.norm(moved[-1])
    if away > 1e-6:  # less is rounding: single-precision vectors
        along = moved[-1] / away
        across = _main_directions(centred - np.outer(centred @ along, along), count=1)
        axes = np.vstack([along, across])
    else:
        axes = _main_directions(centred, count=2)
    return _Projection(moved @ axes.T, others @ axes.T)


def _main_directions(vectors: Floats, *, count: int) -> Floats:
    """The first principal directions [count, d] of vectors [n, d]; missing ones are 0."""
    _, lengths, directions = np.linalg.svd(vectors, full_matrices=False)
    # Where vectors do not differ, directions are arbitrary, and not orthogonal to what was taken out of the vectors.
    directions = directions[lengths > 1e-9][:count]
    # Either sign is right; the one that makes the largest component positive is always chosen.
    signs = np.sign(np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1))
    directions = np.where(signs == 0, 1, signs) * directions
    return np.vstack([directions, np.zeros((count - len(directions), vectors.shape[1]))])


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)


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
        known = {line.docid: line.similarity for line in before}
        lines = (
            [_Line(hit.docid, _known(hit.label), known.get(hit.docid)) for hit in final]
            if is_final
            else _lines(path[t])
        )
        if vectors:  # as the service: a trace has what ranks the hits, where further signals count too
            lines = [line._replace(similarity=_similarity(line.docid, path[t], vectors)) for line in lines]
            known = {line.docid: _similarity(line.docid, path[number - 1], vectors) for line in lines} if number else {}
        bought = {line.docid for line in lines if line.label is not None} - labelled
        labelled |= bought
        ranks = {line.docid: rank for rank, line in enumerate(before, start=1)}
        similarities = known if vectors or not is_final else {}
        found = {line.docid for line in lines}
        yield {
            "event": "round",
            "data": {
                "name": "Final list" if is_final else f"After {t} update{'s' * (t > 1)}" if t else "First retrieval",
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


def _similarity(docid: str, one: PathRound, vectors: Mapping[str, Floats]) -> float | None:
    """The inner product of a document with the query's vector of a round."""
    return float(vectors[docid] @ np.asarray(one.query)) if docid in vectors and one.query is not None else None


def _known(label: float) -> float | None:
    return None if math.isnan(label) else label


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


FILES = Path(__file__).resolve().parents[1] / "service" / "static"
"""The page that the service shows: HTML, style and modules of JavaScript."""

_IMPORT = re.compile(r'^import .* from "\./(.*)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_POLICY = re.compile(r"(?<=Content-Security-Policy\" content=\").*?(?=\">)")


def write_path_page(
    output: str | os.PathLike[str],
    path: Sequence[PathRound],
    query: str,
    texts: Mapping[str, str],
    relevant: Iterable[str],
    *,
    final: Sequence[FinalHit] = (),
    shown: int = 10,
    vectors: Mapping[str, Floats] | None = None,
) -> None:
    """Write the page of a query's path; `relevant` are docids judged relevant, for the others see `as_events`."""
    docids = dict.fromkeys([*(d for one in path for d in one.docids), *(hit.docid for hit in final[:shown])])
    recorded = {
        "query": query,
        "events": list(as_events(path, texts, final=final, shown=shown, vectors=vectors)),
        "relevant": sorted(relevant),
        "texts": {docid: texts[docid] for docid in docids},
    }
    with atomic_write(output) as file:
        file.write(as_page(recorded))


def as_page(recorded: Mapping[str, Any]) -> str:
    """A self-contained HTML page that shows a recorded search.

    Args:
        recorded: `query`; `events`, in the order in which the service sends them; `relevant`, docids judged relevant;
            `texts`, docid to whole passage.
    """
    style, script = _read("page.css"), _one_module("main.js", set())
    # "<" could end the element; JSON may write it as an escape.
    data = json.dumps(recorded, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    page = _read("index.html")
    for old, new in (
        ('<link rel="stylesheet" href="page.css">', f"<style>{style}</style>"),
        (
            '<script type="module" src="main.js"></script>',
            f'<script type="application/json" id="recorded">{data}</script>\n<script type="module">{script}</script>',
        ),
    ):
        before, _, after = page.partition(old)
        page = before + new + after
    return _POLICY.sub(
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "require-trusted-types-for 'script'",
        page,
        count=1,
    )


def _one_module(name: str, done: set[str]) -> str:
    """A module with all that it imports before it. Names at the top level are unique among the page's modules."""
    done.add(name)
    source = _read(name)
    before = "".join(_one_module(other, done) for other in _IMPORT.findall(source) if other not in done)
    return before + _EXPORT.sub("", _IMPORT.sub("", source))


def _read(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source of a content security policy: exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
