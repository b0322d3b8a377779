"""A query's way among its candidates, as an SVG picture inside a page."""

import math
from collections.abc import Sequence, Set
from html import escape

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.experiments.path import Stop
from tour_pyserini.experiments.projection import Projection

WIDTH, HEIGHT, MARGIN = 720, 420, 36


def as_svg(projection: Projection, path: Sequence[Stop], docids: Sequence[str], relevant: Set[str]) -> str:
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
