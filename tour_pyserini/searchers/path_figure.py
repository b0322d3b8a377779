"""How the hits of a search came to their ranks: a figure for notebooks."""

from collections.abc import Sequence
from typing import NamedTuple

from tour_pyserini.support.pictures import GAIN, LOSS
from tour_pyserini.support.svg_figures import Point, svg_dot, svg_figure, svg_line, svg_text

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
