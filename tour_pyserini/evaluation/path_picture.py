"""One query's path as a picture: a column for each retrieval, and one for the final list."""

import math
import os
import textwrap
from collections.abc import Mapping, Sequence, Set
from typing import Any

from tour_pyserini.evaluation.query_path import FinalHit, PathRound
from tour_pyserini.support.display import save_picture

LINE, LINES = 38, 2  # characters of a line, and lines of a passage in a box
_RELEVANT, _OTHER, _MUTED = "#b03024", "#5d6d7e", "#f2f4f6"
_LEGEND = (
    "A column shows a retrieval: the passages that are most similar to the query's vector. Between two columns the "
    "vector is updated, which finds new passages. The number is the re-ranker's score of the passage: the higher, the "
    "better it answers, in the re-ranker's opinion. Filled: it was scored in this round. "
    "Red: judged relevant, which the method does not know. A line follows a passage "
    "from one column to the next. The last column is what the search returns: similarities and the re-ranker's "
    "scores combined."
)


def draw(
    path: Sequence[PathRound],
    query: str,
    texts: Mapping[str, str],
    relevant: Set[str],
    output: str | os.PathLike[str],
    *,
    final: Sequence[FinalHit] = (),
    shown: int = 10,
) -> None:
    """Draw the first passages of each retrieval and of the final list, with a legend.

    Args:
        path: the query's rounds.
        query: its text.
        texts: docid to passage.
        relevant: docids judged relevant.
        output: the picture; its suffix says in which format.
        final: the final list, best first.
        shown: passages per column.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = [_retrieved(path_round, shown) for path_round in path] + ([_returned(final, shown)] if final else [])
    names = [_column_name(t, path_round) for t, path_round in enumerate(path)] + (["final list"] if final else [])
    deepest = max(len(column) for column in columns)
    width = 1.0 + 2.6 * len(columns)
    wrapped = textwrap.fill(_LEGEND, round(17 * width))
    legend_height = 0.17 * (wrapped.count("\n") + 1)
    figure, axes = pyplot.subplots(figsize=(width, 1.3 + legend_height + 0.46 * deepest), layout="constrained")
    for number, column in enumerate(columns):
        after = columns[number + 1] if number + 1 < len(columns) else {}
        for docid, (rank, value, filled) in column.items():
            color = _RELEVANT if docid in relevant else _OTHER
            _draw_box(axes, number, rank, _words(texts[docid]), value, color, filled)
            if docid in after:
                _draw_line(axes, number, rank, after[docid][0], color, strong=docid in relevant)
    axes.set_title("\n".join(textwrap.wrap(f"Query: {query}", round(11 * width))), fontsize=11)
    axes.set_xticks(range(len(columns)), names, fontsize=9)
    axes.xaxis.tick_top()
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_yticks(range(1, deepest + 1))
    axes.set_ylim(deepest + 0.6, 0.4)
    axes.set_ylabel("rank")
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.supxlabel(wrapped, fontsize=8, ha="left", x=0.01)
    save_picture(figure, output)
    pyplot.close(figure)


def _retrieved(path_round: PathRound, shown: int) -> dict[str, tuple[int, float, bool]]:
    """Rank, the re-ranker's score, and whether it got it in this round, of each passage of a retrieval."""
    rows = zip(path_round.docids[:shown], path_round.labels, strict=False)
    return {docid: (rank, label, docid in path_round.labelled) for rank, (docid, label) in enumerate(rows, start=1)}


def _returned(final: Sequence[FinalHit], shown: int) -> dict[str, tuple[int, float, bool]]:
    return {hit.docid: (rank, hit.label, False) for rank, hit in enumerate(final[:shown], start=1)}


def _column_name(t: int, path_round: PathRound) -> str:
    name = "first retrieval" if t == 0 else f"after {t} update{'s' * (t > 1)}"
    return f"{name}\nstops: {path_round.stop_reason}" if path_round.stop_reason else name


def _draw_line(axes: Any, column: int, rank: int, after: int, color: str, *, strong: bool) -> None:
    """A line from a passage's box to its box in the next column."""
    x, y = [column + 0.46, column + 0.54], [rank, after]
    axes.plot(x, y, color=color, zorder=1, lw=2.2 if strong else 1, alpha=1 if strong else 0.5)


def _words(text: str) -> str:
    """The first words of a passage in the lines of a box."""
    return "\n".join(textwrap.wrap(" ".join(text.split()), LINE, max_lines=LINES, placeholder=" ..."))


def _draw_box(axes: Any, column: int, rank: int, words: str, value: float, color: str, filled: bool) -> None:
    from matplotlib.patches import Rectangle

    face = color if filled else _MUTED
    axes.add_patch(Rectangle((column - 0.46, rank - 0.4), 0.92, 0.8, facecolor=face, edgecolor=color, lw=1, zorder=2))
    style = {"va": "center", "fontsize": 7.5, "color": "white" if filled else color, "zorder": 3}
    axes.text(column - 0.44, rank, words, ha="left", **style)
    axes.text(column + 0.44, rank, "–" if math.isnan(value) else f"{value:.1f}", ha="right", **style | {"fontsize": 8})
