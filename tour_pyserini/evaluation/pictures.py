"""Pictures: the gains of runs over a baseline, query by query, and one query's path."""

import io
import math
import os
import textwrap
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.paired_tests import outcomes
from tour_pyserini.evaluation.query_path import FinalHit, PathRound
from tour_pyserini.support.files import atomic_replace

GAIN, LOSS = "#009E73", "#D55E00"  # Okabe and Ito's green and vermilion, distinct for colour-blind readers

COLOURS = 256
"""Colours of a PNG picture. Diagrams need no more, and their files are a third of the size of those with all."""
SUFFIXES = (".png", ".pdf", ".svg")
_CROWDED = 80  # from this many queries on, bars have no gaps between them


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a file name with an unknown suffix, before anything is computed."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise TourError(f"{path} does not end with one of {', '.join(SUFFIXES)}; give a picture one of these suffixes.")


def draw_gains(
    gained: Mapping[str, np.ndarray], *, baseline: str, measure: str, output: str | os.PathLike[str]
) -> None:
    """Draw the gains of each run as sorted bars, one panel per run.

    Args:
        gained: run name to differences from the baseline, float64 [queries].
        baseline: the baseline's name.
        measure: the measure's name.
        output: a file that ends with .png, .pdf or .svg.
    """
    save_picture(_gains_figure(gained, baseline, measure), output)


def gains_svg(gained: Mapping[str, np.ndarray], *, baseline: str, measure: str) -> str:
    """The same picture as an SVG element, for notebooks; "" if there is no run or no query."""
    if not any(values.size for values in gained.values()):
        return ""
    import matplotlib

    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gains"}):  # words stay words; the same bytes
        _gains_figure(gained, baseline, measure).savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]


def _gains_figure(gained: Mapping[str, np.ndarray], baseline: str, measure: str) -> Any:
    from matplotlib.figure import Figure

    columns = min(3, len(gained)) if len(gained) != 4 else 2
    rows = math.ceil(len(gained) / columns)
    figure = Figure(figsize=(0.6 + 4.2 * columns, 0.9 + 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).flat
    for panel, (name, values) in zip(panels, gained.items(), strict=False):
        _draw_gains_of(panel, name, values)
    for panel in panels[len(gained) :]:
        panel.set_axis_off()
    figure.supxlabel("queries, from the largest gain to the largest loss", fontsize=10)
    figure.supylabel(f"gain in {measure}", fontsize=10)
    figure.suptitle(f"Gain over {_short(baseline)} by query", fontsize=10, parse_math=False)
    return figure


def _draw_gains_of(panel: Any, name: str, values: np.ndarray) -> None:
    ordered = np.sort(values)[::-1]
    # Bars as one outline [left, left + gap, left + 1 - gap], which is much faster to draw than 1,000 bars.
    gap = 0.1 if ordered.size < _CROWDED else 0.0
    edges = np.append(np.add.outer(np.arange(ordered.size), [0, gap, 1 - gap]).ravel(), ordered.size)
    for part, color in ((np.clip(ordered, 0, None), GAIN), (np.clip(ordered, None, 0), LOSS)):
        panel.stairs(np.outer(part, [0, 1, 0]).ravel(), edges, fill=True, color=color, linewidth=0)
    panel.axhline(0, color="black", linewidth=0.6)
    wins, ties, losses = outcomes(ordered)
    counts = f"{wins} won, {ties} tied, {losses} lost, mean {ordered.mean():+.4f}"
    panel.set_title(f"{_short(name)}\n{counts}", fontsize=9, parse_math=False)
    panel.margins(x=0.015)
    panel.tick_params(labelsize=8)
    panel.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    panel.spines[["top", "right"]].set_visible(False)


def _short(name: str, width: int = 48) -> str:
    return name if len(name) <= width else "..." + name[3 - width :]


LINE, LINES = 38, 2  # characters of a line, and lines of a passage in a box of a path
_RELEVANT, _OTHER, _MUTED = "#b03024", "#5d6d7e", "#f2f4f6"
_LEGEND = (
    "A column shows a retrieval: the passages that are most similar to the query's vector. Between two columns the "
    "vector is updated, which finds new passages. The number is the re-ranker's score of the passage: the higher, the "
    "better it answers, in the re-ranker's opinion. Filled: it was scored in this round. "
    "Red: judged relevant, which the method does not know. A line follows a passage "
    "from one column to the next. The last column is what the search returns: similarities and the re-ranker's "
    "scores combined."
)


def draw_path(
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
    from matplotlib.figure import Figure

    # By docid: rank, the re-ranker's score, and whether the passage got it in this round.
    columns = [
        {docid: (rank, label, docid in one.labelled) for rank, docid, label in _ranked(one.docids, one.labels, shown)}
        for one in path
    ]
    names = [_column_name(t, path_round) for t, path_round in enumerate(path)]
    if final:
        rows = _ranked([hit.docid for hit in final], [hit.label for hit in final], shown)
        columns.append({docid: (rank, label, False) for rank, docid, label in rows})
        names.append("final list")
    deepest = max(len(column) for column in columns)
    width = 1.0 + 2.6 * len(columns)
    legend = textwrap.fill(_LEGEND, round(17 * width))
    height = 1.3 + 0.17 * (legend.count("\n") + 1) + 0.46 * deepest
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    for number, column in enumerate(columns):
        after = columns[number + 1] if number + 1 < len(columns) else {}
        for docid, (rank, label, filled) in column.items():
            color, strong = (_RELEVANT, True) if docid in relevant else (_OTHER, False)
            _draw_box(axes, number, rank, texts[docid], label, color, filled)
            if docid in after:
                x, y = [number + 0.46, number + 0.54], [rank, after[docid][0]]
                axes.plot(x, y, color=color, zorder=1, lw=2.2 if strong else 1, alpha=1 if strong else 0.5)
    axes.set_title("\n".join(textwrap.wrap(f"Query: {query}", round(11 * width))), fontsize=11)
    axes.set_xticks(range(len(columns)), names, fontsize=9)
    axes.xaxis.tick_top()
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_yticks(range(1, deepest + 1))
    axes.set_ylim(deepest + 0.6, 0.4)
    axes.set_ylabel("rank")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.supxlabel(legend, fontsize=8, ha="left", x=0.01)
    save_picture(figure, output)


def _ranked(docids: Sequence[str], labels: Sequence[float], shown: int) -> list[tuple[int, str, float]]:
    return [(rank, *row) for rank, row in enumerate(zip(docids[:shown], labels, strict=False), start=1)]


def _column_name(t: int, path_round: PathRound) -> str:
    name = "first retrieval" if t == 0 else f"after {t} update{'s' * (t > 1)}"
    return f"{name}\nstops: {path_round.stop_reason}" if path_round.stop_reason else name


def _draw_box(axes: Any, column: int, rank: int, text: str, label: float, color: str, filled: bool) -> None:
    """The first words of a passage and its label."""
    from matplotlib.patches import Rectangle

    words = "\n".join(textwrap.wrap(" ".join(text.split()), LINE, max_lines=LINES, placeholder=" ..."))
    face = color if filled else _MUTED
    axes.add_patch(Rectangle((column - 0.46, rank - 0.4), 0.92, 0.8, facecolor=face, edgecolor=color, lw=1, zorder=2))
    style = {"va": "center", "fontsize": 7.5, "color": "white" if filled else color, "zorder": 3}
    axes.text(column - 0.44, rank, words, ha="left", **style)
    axes.text(column + 0.44, rank, "–" if math.isnan(label) else f"{label:.1f}", ha="right", **style | {"fontsize": 8})


def save_picture(figure: Any, output: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Write a figure, whole or not at all.

    Args:
        figure: a figure of matplotlib's.
        output: its file; what it ends with (.png, .pdf, .svg) is its format, and PNG is the format without one.
        dpi: pixels per inch.
    """
    kind = Path(output).suffix.lower().lstrip(".") or "png"
    with atomic_replace(output) as partial:
        if kind == "png":
            _write_png(figure, partial, dpi=dpi)
        else:
            figure.savefig(partial, dpi=dpi, format=kind)


def _write_png(figure: Any, path: Path, *, dpi: int) -> None:
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi, format="png")
    with Image.open(drawn) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, format="png", optimize=True, dpi=(dpi, dpi))
