"""One query's path as a self-contained HTML page with a map of its candidates."""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.evaluation.query_path import PathRound


class Projection(NamedTuple):
    """Places [n, 2] of queries and of candidates."""

    queries: Floats
    candidates: Floats


def projected(queries: Floats, candidates: Floats) -> Projection:
    """Directions of the query at each step [t, d] and of candidates [n, d], seen from the first query.

    The first axis is the way from the first query to the last, so that what lies to the right is what the query moved
    towards; the second is the direction, across the first, in which the candidates differ most. A query that did not
    move has the candidates' two main directions. All vectors are brought to unit length first.
    """
    origin, *_ = moved = _unit(queries)
    moved, others = moved - origin, _unit(candidates) - origin
    away = np.linalg.norm(moved[-1])
    if away > 1e-9:
        along = moved[-1] / away
        across = _main(others - np.outer(others @ along, along), count=1)
        axes = np.vstack([along, across])
    else:
        axes = _main(others - others.mean(axis=0), count=2)
    return Projection(moved @ axes.T, others @ axes.T)


def _main(vectors: Floats, *, count: int) -> Floats:
    """The main directions [count, d] of vectors [n, d]; zero where there are fewer."""
    directions = np.linalg.svd(vectors, full_matrices=False)[2][:count]
    # Either sign is right; the one with the largest component above 0 is always chosen.
    signs = np.sign(np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1))
    found = np.where(signs == 0, 1, signs) * directions
    return np.vstack([found, np.zeros((count - len(found), vectors.shape[1]))])


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)


WIDTH, HEIGHT, MARGIN = 720, 420, 36


def as_svg(projection: Projection, path: Sequence[PathRound], docids: Sequence[str], relevant: Set[str]) -> str:
    """The map: a dot per candidate, filled the more the better its re-ranker score, and the query's steps as arrows.

    Args:
        projection: places of the query at each step, and of the candidates in the order of `docids`.
        path: the query's retrievals.
        docids: all candidates that were met.
        relevant: those judged relevant.
    """
    queries, candidates = _on_paper(projection)
    scores = {docid: score for stop in path for docid, score in zip(stop.docids, stop.scores, strict=True)}
    shades = _shades([scores[docid] for docid in docids])
    dots = [
        f'<g class="dot{" relevant" if docid in relevant else ""}" data-doc="{escape(docid)}">'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" style="--shade:{shade:.2f}"/>'
        f"<title>{escape(docid)}: {_score(scores[docid])}</title></g>"
        for docid, (x, y), shade in zip(docids, candidates.tolist(), shades, strict=True)
    ]
    steps = [
        f'<line class="step" x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}" marker-end="url(#arrow)"/>'
        for (x, y), (u, v) in zip(queries.tolist(), queries[1:].tolist(), strict=False)
    ]
    names = [
        f'<circle class="query" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        f'<text x="{x:.1f}" y="{y - 9 - 12 * (t % 2):.1f}">q{t}</text>'
        for t, (x, y) in enumerate(queries.tolist())
    ]
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return f'<svg class="map" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{arrow}{"".join(dots + steps + names)}</svg>'


def _on_paper(projection: Projection) -> tuple[Floats, Floats]:
    """Places in the picture's coordinates; both axes have one scale, so that distances can be compared."""
    together = np.vstack([projection.queries, projection.candidates])
    low, high = together.min(axis=0), together.max(axis=0)
    span = np.maximum(high - low, 1e-9)
    scale = min((WIDTH - 2 * MARGIN) / span[0], (HEIGHT - 2 * MARGIN) / span[1])
    middle, centre = (low + high) / 2, np.array([WIDTH / 2, HEIGHT / 2])
    places = centre + (together - middle) * scale * np.array([1.0, -1.0])
    return places[: len(projection.queries)], places[len(projection.queries) :]


def _shades(scores: Sequence[float]) -> list[float]:
    """Scores between 0 and 1, for colours; the middle where there is none."""
    known = [score for score in scores if not math.isnan(score)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = (high - low) or 1.0
    return [0.5 if math.isnan(score) else (score - low) / span for score in scores]


def _score(score: float) -> str:
    return "no score" if math.isnan(score) else f"{score:.2f}"


TEMPLATE = Path(__file__).with_name("page.html")
LENGTH = 160  # characters of a passage

_MAP = """<h2>The query's movement</h2>
<p>Directions of vectors: to the right is where the query went; up and down, how candidates differ most otherwise. The
darker a dot, the better the re-ranker's score; a ring marks what is judged relevant.</p>
"""


def as_page(
    path: Sequence[PathRound],
    query: str,
    texts: Mapping[str, str],
    relevant: Set[str],
    *,
    shown: int = 10,
    svg: str | None = None,
) -> str:
    """An HTML page with the lists of each round side by side.

    Args:
        path: the query's retrievals.
        query: its text.
        texts: passages of the candidates.
        relevant: docids judged relevant.
        shown: candidates per round.
        svg: the map, if there is one.
    """
    labelled = len({docid for stop in path for docid in stop.docids})
    about = (
        f"{len(path)} retrievals, {labelled} candidates in all, {len(relevant)} judged relevant. Scores are the "
        "re-ranker's; point at a passage to find it in the other rounds."
    )
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(query),
        query=escape(query),
        about=about,
        rounds="\n".join(_rounds(path, texts, relevant, shown)),
        map=_MAP + svg if svg else "",
    )


def _rounds(path: Sequence[PathRound], texts: Mapping[str, str], relevant: Set[str], shown: int) -> Iterator[str]:
    met: set[str] = set()
    for t, stop in enumerate(path):
        before = path[t - 1].docids if t else []
        items = [
            _item(rank, docid, score, before, t > 0 and docid not in met, docid in relevant, texts[docid])
            for rank, (docid, score) in enumerate(zip(stop.docids[:shown], stop.scores, strict=False), start=1)
        ]
        fresh = len(set(stop.docids) - met) if t else 0
        facts = [f"cosine to the first query {stop.cosine:.3f}"] if t and stop.cosine is not None else []
        facts += [f"{fresh} new candidates"] if t else []
        facts += [f"stopped: {escape(stop.stopped)}"] if stop.stopped else []
        yield (
            f'<section class="round"><h2>t = {t}</h2><p class="facts">{"; ".join(facts) or "the first retrieval"}</p>'
            f"<ol>{''.join(items)}</ol></section>"
        )
        met.update(stop.docids)


def _item(
    rank: int, docid: str, score: float, before: Sequence[str], is_new: bool, is_relevant: bool, text: str
) -> str:
    marks = '<span class="mark relevant">relevant</span>' if is_relevant else ""
    if is_new:
        marks += '<span class="mark new">new</span>'
    elif docid in before and (moved := before.index(docid) + 1 - rank):
        marks += f'<span class="mark moved">{"↑" if moved > 0 else "↓"}{abs(moved)}</span>'
    value = "–" if math.isnan(score) else f"{score:.2f}"
    short = text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0] + " ..."
    return (
        f'<li class="{"relevant" if is_relevant else ""}" data-doc="{escape(docid)}"><div class="top">'
        f'<span class="rank">{rank}</span><span class="docid">{escape(docid)}</span>{marks}'
        f'<span class="score">{value}</span></div><div class="text">{escape(short)}</div></li>'
    )
