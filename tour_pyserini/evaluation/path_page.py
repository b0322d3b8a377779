"""The page of one query path: the files of the service's page and the events of the path in one HTML file."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.texts import one_line_parts
from tour_pyserini.evaluation.query_path import QueryPath, first_words
from tour_pyserini.support.files import atomic_write


def _projected(queries: Floats, candidates: Floats) -> tuple[Floats, Floats]:
    """The query vectors of each round [t, d] and the candidates [n, d] in two dimensions, [t, 2] and [n, 2].

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
    return moved @ axes.T, others @ axes.T


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


class PathLists:
    """The lists of one query, each as the page reads it: what is new in it, what moved, and the map of the query."""

    def __init__(self) -> None:
        self._number = 0
        self._queries: list[Floats] = []  # vectors [d] at t = 0, 1, ..., where they are known
        self._ranks: dict[str, int] = {}
        self._similarities: Mapping[str, float | None] = {}
        self._labelled: set[str] = set()

    def add(
        self,
        docids: Sequence[str],
        labels: Mapping[str, float],
        *,
        t: int,
        query: Floats | None = None,
        vectors: Mapping[str, Floats] | None = None,
        similarities: Mapping[str, float | None] | None = None,
    ) -> dict[str, Any]:
        """The next list, as fields of the service's message `Round`.

        Args:
            docids: what is in it, best first.
            labels: all labels so far, by docid.
            t: updates of the query vector before this list.
            query: the query's vector [d].
            vectors: docid to vector [d] of what is in the list or has a label.
            similarities: docid to similarity, where there are no vectors.
        """
        vectors, similarities, before = vectors or {}, similarities or {}, self._similarities
        if query is not None:
            earlier = self._queries[-1] if self._queries else None
            if len(self._queries) <= t:
                self._queries.append(query.astype(np.float64))
            similarities = {docid: _product(vectors.get(docid), self._queries[-1]) for docid in docids}
            before = {docid: _product(vectors.get(docid), earlier) for docid in docids}
        ranks = {docid: rank for rank, docid in enumerate(docids, start=1)}
        told = {
            "number": self._number,
            "t": t,
            "candidates": [
                {
                    "docid": docid,
                    "rank": rank,
                    "label": labels.get(docid),
                    "bought": docid in labels and docid not in self._labelled,
                    "rank_before": self._ranks.get(docid),
                    "similarity": similarities.get(docid),
                    "similarity_before": before.get(docid),
                }
                for docid, rank in ranks.items()
            ],
            "new": [docid for docid in docids if self._number and docid not in self._ranks],
            "gone": [docid for docid in self._ranks if docid not in ranks],
            "map": self._map({docid: vectors[docid] for docid in (*docids, *labels) if docid in vectors}),
        }
        self._number, self._ranks, self._similarities = self._number + 1, ranks, similarities
        self._labelled.update(labels)
        return told

    def _map(self, vectors: Mapping[str, Floats]) -> dict[str, Any] | None:
        if not vectors:
            return None
        places = _projected(np.stack(self._queries), np.stack(list(vectors.values())))
        queries, candidates = (part.round(6).tolist() for part in places)
        return {"queries": queries, "candidates": dict(zip(vectors, candidates, strict=True))}


def _product(vector: Floats | None, query: Floats | None) -> float | None:
    return None if vector is None or query is None else float(vector @ query)


_WORDS = 240  # characters of a passage that a list shows


def _events(path: QueryPath, shown: int, vectors: Mapping[str, Floats] | None) -> Iterator[dict[str, Any]]:
    """The event `round` for each round of a path, and one for the final list.

    A trace tells neither times nor the scores that rank a list: these fields of the service's messages are left out,
    and the candidates of a round are in the order of similarity. `name` and `note` are what the page writes above.
    """
    lists, labels = PathLists(), dict[str, float]()
    note = "The retrieval: the passages most similar to the query's vector first."
    shows = [(f"After {t} update{'s' * (t > 1)}" if t else "First retrieval", note) for t in range(len(path.rounds))]
    if path.final:
        shows.append(("Final list", "What the search returns: similarities and labels combined."))
    for number, (name, note) in enumerate(shows):
        t = min(number, len(path.rounds) - 1)
        one, is_final = path.rounds[t], number > t
        labels |= {docid: label for docid, label in zip(one.docids, one.labels, strict=False) if label is not None}
        told = lists.add(
            [docid for docid, _ in path.final] if is_final else one.docids,
            path.labels if is_final else labels,
            t=t,
            query=np.asarray(one.query) if vectors else None,
            vectors=vectors,
            similarities=dict(zip(one.docids, one.similarities, strict=False)),
        )
        del told["candidates"][shown:]
        for line in told["candidates"]:
            title, text = one_line_parts(path.texts[line["docid"]])
            line |= {"title": title, "words": first_words(text, _WORDS)}
        told |= {"name": name, "note": note, "cosine": one.cosine, "stop": one.stop}
        yield {"event": "round", "data": told | {"costs": {"labels": len(labels), "updates": t}}}


FILES = Path(__file__).resolve().parents[1] / "service" / "static"
"""The page that the service shows: HTML, style and modules of JavaScript."""

_IMPORT = re.compile(r'^import .* from "\./(.*)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_POLICY = re.compile(r"(?<=Content-Security-Policy\" content=\").*?(?=\">)")


def write_path_page(
    output: str | os.PathLike[str],
    path: QueryPath,
    *,
    shown: int = 10,
    vectors: Mapping[str, Floats] | None = None,
) -> None:
    """Write the path of a query as a self-contained HTML page.

    Args:
        output: the page.
        path: what it shows.
        shown: candidates per list.
        vectors: docid to vector [d] of every candidate, for the map; the rounds have the query vectors then.
    """
    docids = dict.fromkeys(docid for one in path.rounds for docid in one.docids)
    docids |= dict.fromkeys(docid for docid, _ in path.final[:shown])
    recorded = {
        "query": path.query,
        "events": list(_events(path, shown, vectors)),
        "relevant": sorted(path.relevant),
        "texts": {docid: path.texts[docid] for docid in docids},
    }
    with atomic_write(output) as file:
        file.write(_as_page(recorded))


def _as_page(recorded: Mapping[str, Any]) -> str:
    """The page of a recorded search: its query, events, relevant docids, and whole passages by docid."""
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
