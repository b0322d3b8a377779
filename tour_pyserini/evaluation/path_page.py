"""One query's path as a self-contained HTML page, with a map of the query vectors and the candidates."""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.evaluation.query_path import FinalHit, PathRound, first_words

TEMPLATE = Path(__file__).with_name("page.html")
LENGTH = 160  # characters of a passage that are shown
DOT_LENGTH = 60  # ... and those that are shown for a dot of the map
WIDTH, HEIGHT, MARGIN = 720, 420, 36  # of the map, in its own units

_MAP = """<h2>The query's movement</h2>
<p>A map of the vectors. q0 is the query as the encoder made it; the arrows lead to the vector of each later retrieval.
Each dot is a passage: the darker, the better the re-ranker's score; a green ring is judged relevant. To the right is
where the query went; up and down is how the passages differ most otherwise. Point at a dot to read it.</p>
"""


def as_page(
    path: Sequence[PathRound],
    query: str,
    texts: Mapping[str, str],
    relevant: Set[str],
    *,
    final: Sequence[FinalHit] = (),
    shown: int = 10,
    svg: str | None = None,
) -> str:
    """An HTML page with the candidates of all rounds and the final list side by side.

    Args:
        path: the query's rounds.
        query: its text.
        texts: docid to passage.
        relevant: docids judged relevant.
        final: the list that the search returned.
        shown: candidates per round.
        svg: the map that `as_svg` made, if there is one.
    """
    candidates = len({docid for path_round in path for docid in path_round.docids})
    about = f"{len(path)} retrievals, {candidates} passages looked at, {len(relevant)} judged relevant."
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(query),
        query=escape(query),
        about=about,
        rounds="\n".join([*_rounds(path, texts, relevant, shown), *_final(final, path[-1], texts, relevant, shown)]),
        map=_MAP + svg if svg else "",
    )


def _rounds(path: Sequence[PathRound], texts: Mapping[str, str], relevant: Set[str], shown: int) -> Iterator[str]:
    seen: set[str] = set()
    for t, path_round in enumerate(path):
        before = path[t - 1].docids if t else []
        items = [
            _item(rank, docid, score, before, t > 0 and docid not in seen, docid in relevant, texts[docid])
            for rank, (docid, score) in enumerate(
                zip(path_round.docids[:shown], path_round.labels, strict=False), start=1
            )
        ]
        new = len(set(path_round.docids) - seen) if t else 0
        facts = [f"{new} new passages"] if t else ["with the encoder's own vector"]
        facts += [f"cosine to the first vector {path_round.cosine:.3f}"] if t and path_round.cosine is not None else []
        facts += [f"stopped: {escape(path_round.stop_reason)}"] if path_round.stop_reason else []
        name = "First retrieval" if t == 0 else f"After {t} update{'s' * (t > 1)}"
        yield _section(name, facts, items)
        seen.update(path_round.docids)


def _final(
    final: Sequence[FinalHit], last: PathRound, texts: Mapping[str, str], relevant: Set[str], shown: int
) -> Iterator[str]:
    """The section of the final list, if there is one; arrows compare it with the last retrieval."""
    if final:
        items = [
            _item(rank, hit.docid, hit.label, last.docids, False, hit.docid in relevant, texts[hit.docid])
            for rank, hit in enumerate(final[:shown], start=1)
        ]
        yield _section("Final list", ["what the search returns: similarities and scores combined"], items)


def _section(name: str, facts: Sequence[str], items: Sequence[str]) -> str:
    return (
        f'<section class="round"><h2>{name}</h2><p class="facts">{"; ".join(facts)}</p>'
        f"<ol>{''.join(items)}</ol></section>"
    )


def _item(
    rank: int, docid: str, score: float, before: Sequence[str], is_new: bool, is_relevant: bool, text: str
) -> str:
    marks = '<span class="mark relevant">relevant</span>' if is_relevant else ""
    if is_new:
        marks += '<span class="mark new">new</span>'
    elif docid in before and (moved := before.index(docid) + 1 - rank):
        marks += f'<span class="mark moved">{"↑" if moved > 0 else "↓"}{abs(moved)}</span>'
    value = "–" if math.isnan(score) else f"{score:.2f}"
    return (
        f'<li class="{"relevant" if is_relevant else ""}" data-doc="{escape(docid)}"><div class="top">'
        f'<span class="rank">{rank}</span>{marks}<span class="score">{value}</span></div>'
        f'<div class="text">{escape(first_words(text, LENGTH))} <span class="docid">{escape(docid)}</span></div></li>'
    )


class Projection(NamedTuple):
    """Coordinates of the query vectors [t, 2] and of the candidates [n, 2] on the map."""

    queries: Floats
    candidates: Floats


def projected(queries: Floats, candidates: Floats) -> Projection:
    """Project the query vectors of each round [t, d] and the candidates [n, d] to two dimensions.

    All vectors are scaled to unit length first; the first query vector is the origin. The first axis points from the
    first query vector to the last, so that the query moves to the right. The second axis is the direction, orthogonal
    to the first, in which the candidates differ most. If the query did not move, the axes are the candidates' two
    main directions.
    """
    origin, *_ = moved = _unit(queries)
    moved, others = moved - origin, _unit(candidates) - origin
    away = np.linalg.norm(moved[-1])
    if away > 1e-9:
        along = moved[-1] / away
        across = _main_directions(others - np.outer(others @ along, along), count=1)
        axes = np.vstack([along, across])
    else:
        axes = _main_directions(others - others.mean(axis=0), count=2)
    return Projection(moved @ axes.T, others @ axes.T)


def _main_directions(vectors: Floats, *, count: int) -> Floats:
    """The first principal directions [count, d] of vectors [n, d]; missing ones are 0."""
    directions = np.linalg.svd(vectors, full_matrices=False)[2][:count]
    # Either sign is right; the one that makes the largest component positive is always chosen.
    signs = np.sign(np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1))
    directions = np.where(signs == 0, 1, signs) * directions
    return np.vstack([directions, np.zeros((count - len(directions), vectors.shape[1]))])


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)


def as_svg(
    projection: Projection,
    path: Sequence[PathRound],
    docids: Sequence[str],
    relevant: Set[str],
    texts: Mapping[str, str],
) -> str:
    """The map as SVG: a dot per candidate, darker for better re-ranker scores, and the query's updates as arrows.

    Args:
        projection: coordinates of the query in each round, and of the candidates in the order of `docids`.
        path: the query's rounds.
        docids: all candidates of all rounds.
        relevant: docids judged relevant.
        texts: docid to passage.
    """
    queries, candidates = _to_picture(projection)
    scores = {
        docid: score for path_round in path for docid, score in zip(path_round.docids, path_round.labels, strict=True)
    }
    shades = _shades([scores[docid] for docid in docids])
    dots = [
        f'<g class="dot{" relevant" if docid in relevant else ""}" data-doc="{escape(docid)}">'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" style="--shade:{shade:.2f}"/>'
        f"<title>{escape(first_words(texts[docid], DOT_LENGTH))} ({_score(scores[docid])})</title></g>"
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


def _to_picture(projection: Projection) -> tuple[Floats, Floats]:
    """The picture's coordinates; both axes have the same scale, so that distances can be compared."""
    together = np.vstack([projection.queries, projection.candidates])
    low, high = together.min(axis=0), together.max(axis=0)
    span = np.maximum(high - low, 1e-9)
    scale = min((WIDTH - 2 * MARGIN) / span[0], (HEIGHT - 2 * MARGIN) / span[1])
    middle, centre = (low + high) / 2, np.array([WIDTH / 2, HEIGHT / 2])
    points = centre + (together - middle) * scale * np.array([1.0, -1.0])
    return points[: len(projection.queries)], points[len(projection.queries) :]


def _shades(scores: Sequence[float]) -> list[float]:
    """Scores scaled to [0, 1], for colours; 0.5 for a candidate without a score."""
    known = [score for score in scores if not math.isnan(score)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = (high - low) or 1.0
    return [0.5 if math.isnan(score) else (score - low) / span for score in scores]


def _score(score: float) -> str:
    return "no score" if math.isnan(score) else f"{score:.2f}"
