"""A search with what happened on the way: where each hit was before, its label, and what each round did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.searchers.hits import hits_html
from tour_pyserini.searchers.searcher import SearchRound, TourSearcher
from tour_pyserini.support.html_tables import html_table
from tour_pyserini.support.pictures import GAIN, LOSS

Point = tuple[float, float]


def svg_figure(parts: Sequence[str], *, width: float, height: float, title: str, description: str) -> str:
    """An SVG element of that many pixels; `title` and `description` are for readers who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'style="max-width: 100%; height: auto; display: block" font-family="sans-serif" font-size="11" '
        f'fill="currentColor"><title>{escape(title)}</title><desc>{escape(description)}</desc>{"".join(parts)}</svg>'
    )


def svg_text(at: Point, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    """A line of text whose `start`, `middle` or `end` is at a point."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def svg_line(points: Sequence[Point], *, colour: str = "currentColor", width: float = 1, dashes: str = "") -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def svg_area(points: Sequence[Point], *, colour: str) -> str:
    """A filled area."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{path}" fill="{colour}"/>'


def svg_dot(at: Point, *, colour: str) -> str:
    """A dot."""
    return f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3" fill="{colour}"/>'


SHOWN = 10
"""Hits that are drawn."""

_COLUMN, _ROW = 96, 20  # pixels between two lists, and between two ranks
_LEFT, _TOP, _RIGHT = 52, 48, 210
_SAME = "#888888"


class RankLine(NamedTuple):
    """A hit of the final list: its docid, its label, and its rank in each list; None where a list does not have it."""

    docid: str
    label: float | None
    ranks: Sequence[int | None]


def path_figure(hits: Sequence[RankLine], lists: Sequence[tuple[int, int]]) -> str:
    """A line for each of the first hits: its ranks from the first retrieval to the final list; "" if there is one list.

    Args:
        hits: the final list, best first.
        lists: labels and updates before each list.
    """
    drawn = hits[:SHOWN]
    if len(lists) < 2 or not drawn:
        return ""
    below = len(drawn) + 1  # the row of hits that a list has further below, or not at all

    def place(column: int, rank: int | None) -> Point:
        return _LEFT + column * _COLUMN, _TOP + _ROW * min(rank or below, below)

    parts = [svg_text((_LEFT - 14, _TOP + _ROW * rank + 4), str(rank), anchor="end") for rank in range(1, below)]
    if any((rank or below) >= below for hit in drawn for rank in hit.ranks):
        parts.append(svg_text((_LEFT - 14, _TOP + _ROW * below + 4), "below", anchor="end"))
    for column, (labels, updates) in enumerate(lists):
        x, _ = place(column, 1)
        parts.append(svg_text((x, _TOP - 18), f"{labels} label{'s' * (labels != 1)}", anchor="middle", bold=True))
        parts.append(svg_text((x, _TOP - 4), f"{updates} update{'s' * (updates != 1)}", anchor="middle"))
    for hit in reversed(drawn):  # the best one is drawn last, over the others
        colour, dashes = _look(hit)
        ranks = list(enumerate(hit.ranks))
        while len(ranks) > 1 and ranks[0][1] is ranks[1][1] is None:  # before the list in which it is found
            del ranks[0]
        points = [place(column, rank) for column, rank in ranks]
        parts.append(svg_line(points, colour=colour, width=2, dashes=dashes))
        parts += [svg_dot(point, colour=colour) for point in points]
        label = "no label" if hit.label is None else f"label {hit.label:.2f}"
        parts.append(svg_text((points[-1][0] + 10, points[-1][1] + 4), f"{_short(hit.docid)}, {label}"))
    height = _TOP + _ROW * (below + 2)
    legend = "solid green: came up; dashed orange: went down; grey: the same rank"
    parts.append(svg_text((4, height - 6), legend))
    return svg_figure(
        parts,
        width=max(_LEFT + _COLUMN * (len(lists) - 1) + _RIGHT, 400),
        height=height,
        title="Ranks of the first hits, from the first retrieval to the final list",
        description="; ".join(f"{hit.docid}: {', '.join(_rank(rank) for rank in hit.ranks)}" for hit in drawn),
    )


def _look(hit: RankLine) -> tuple[str, str]:
    """Colour and dashes of a hit's line."""
    before, after = hit.ranks[0], hit.ranks[-1]
    if before == after:
        return _SAME, ""
    return (GAIN, "") if before is None or (after is not None and after < before) else (LOSS, "5 3")


def _rank(rank: int | None) -> str:
    return "not in the list" if rank is None else f"rank {rank}"


def _short(docid: str, width: int = 18) -> str:
    return docid if len(docid) <= width else docid[: width - 3] + "..."


class PathHit(NamedTuple):
    """One line of the final list.

    Attributes:
        docid: the document.
        score: its score in the list.
        text: its passage; None where the searcher was given no texts.
        label: the re-ranker's score of it; None where it has none.
        ranks: its rank in the first retrieval and after each round; None where it was not in the list.
    """

    docid: str
    score: float
    text: str | None
    label: float | None
    ranks: Sequence[int | None]

    @property
    def rank(self) -> int:
        """Its rank in the list, from 1."""
        assert self.ranks[-1] is not None
        return self.ranks[-1]

    @property
    def rank_before(self) -> int | None:
        """Its rank in the first retrieval, before any label; None where it was not in that list."""
        return self.ranks[0]


class ListSummary(NamedTuple):
    """The list after the first retrieval or after a round, in numbers.

    Attributes:
        updates: updates of the query vector so far.
        labels: labels bought so far.
        new: hits that the list before did not have; None for the first list.
        cosine: cosine of the query vector and the first query vector; None for a vector of length 0.
        stop: why the search ended with this list; None when it went on.
    """

    updates: int
    labels: int
    new: int | None
    cosine: float | None
    stop: str | None


@dataclass(frozen=True)
class SearchPath:
    """A query's final list and the path to it; a notebook shows both as tables, and ranks as a figure.

    Attributes:
        query: the query's text.
        hits: the final list, best first: what `search` returns.
        lists: the list after the first retrieval and after each round, in numbers.
    """

    query: str
    hits: Sequence[PathHit]
    lists: Sequence[ListSummary]

    def metadata(self, hit: PathHit) -> dict[str, Any]:
        """What is known of a hit beside its text, in values that JSON has; `path` is the same for all hits."""
        return {
            **{"docid": hit.docid, "score": hit.score, "label": hit.label},
            **{"rank": hit.rank, "rank_before": hit.rank_before, "ranks": list(hit.ranks)},
            "path": [summary._asdict() for summary in self.lists],
        }

    def _repr_html_(self) -> str:
        hits = [
            (hit.docid, hit.text or "", f"{hit.score:.4f}", _number(hit.label), _number(hit.rank_before, 0))
            for hit in self.hits
        ]
        head = ["updates", "labels", "new hits", "cosine to the first vector", "stopped by"]
        lists = [
            [str(one.updates), str(one.labels), _number(one.new, 0), _number(one.cosine), one.stop or ""]
            for one in self.lists
        ]
        path = html_table([head, *lists], words=0, title=f"The path of: {self.query}")
        lines = [RankLine(hit.docid, hit.label, hit.ranks) for hit in self.hits]
        path += path_figure(lines, [(one.labels, one.updates) for one in self.lists])
        return path + hits_html(["rank", "docid", "passage", "score", "label", "rank before"], hits)


def search_path(searcher: TourSearcher, query: str, k: int = 10, threads: int = 1) -> SearchPath:
    """Search with one query and keep its path; the list is that of `search`.

    Args:
        searcher: a `TourSearcher`.
        query: the query's text.
        k: length of the list.
        threads: threads of search.

    Example:
        path = search_path(searcher, "do statins prevent stroke")
        print([(hit.docid, hit.rank_before, hit.label) for hit in path.hits], len(path.lists))
    """
    rounds = list(searcher.rounds(query, k, threads))
    ranks = [{hit.docid: rank for rank, hit in enumerate(one.hits, start=1)} for one in rounds]
    last = rounds[-1]
    hits = [
        PathHit(hit.docid, hit.score, hit.text, last.labels.get(id_), [known.get(hit.docid) for known in ranks])
        for hit, id_ in zip(last.hits, last.ids.tolist(), strict=True)
    ]
    return SearchPath(query, hits, _summaries(rounds, ranks))


def _summaries(rounds: Sequence[SearchRound], ranks: Sequence[Mapping[str, int]]) -> list[ListSummary]:
    first = rounds[0].vector
    return [
        ListSummary(
            one.updates,
            len(one.labels),
            len(ranks[i].keys() - ranks[i - 1].keys()) if i else None,
            _cosine(one.vector, first),
            None if one.stop is None else str(one.stop),
        )
        for i, one in enumerate(rounds)
    ]


def _cosine(one: Floats, other: Floats) -> float | None:
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return round(float(one @ other) / norms, 6) if norms else None


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
