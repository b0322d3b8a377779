"""Figures of an experiment: curves in small multiples, collections across, encoders and indexes down."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.cells import Cell
from tour_pyserini.experiments.curves import Curve
from tour_pyserini.files import replaced_whole

# Okabe and Ito's colours, which colour-blind readers tell apart, and two more; markers help, too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B22222", "#888888")
MARKERS = "osD^vPX*"


def draw_panels(
    panels: Mapping[Cell, Sequence[Curve]],
    titles: Mapping[Cell, str],
    *,
    title: str,
    x: str,
    y: str,
    across: bool,
    output: Path,
) -> None:
    """Draw curves of cells.

    Args:
        panels: the curves of each cell.
        titles: what stands above each.
        title: of the figure.
        x: name of the horizontal axis.
        y: name of the vertical one.
        across: draw conditions that stand alone as lines across; otherwise they are points.
        output: a .png, .pdf or .svg file.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TourError("figures need matplotlib; run: pip install matplotlib") from error

    columns = list(dict.fromkeys(cell.collection for cell in panels))
    rows = list(dict.fromkeys(cell[1:4] for cell in panels))
    figure = Figure(figsize=(1.2 + 3.1 * len(columns), 1.6 + 2.4 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    named: dict[str, Any] = {}
    styles = _styles(panels)
    for panel in grid.flat:
        panel.set_axis_off()
    for cell, curves in panels.items():
        panel = grid[rows.index(cell[1:4])][columns.index(cell.collection)]
        panel.set_axis_on()
        panel.set_title(titles[cell], fontsize=8, parse_math=False)
        panel.tick_params(labelsize=7)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        panel.set_xlabel(x, fontsize=8, parse_math=False)
        panel.set_ylabel(y, fontsize=8, parse_math=False)
        if all(point[0].is_integer() for curve in curves for point in curve.points):
            panel.xaxis.get_major_locator().set_params(integer=True)
        for curve in curves:
            if curve.points:
                named[curve.title] = _draw(panel, curve, *styles[curve.title], across=across)
    figure.suptitle(title, fontsize=10, parse_math=False)
    columns_of_legend = max(1, min(4, len(named), len(columns)))
    figure.legend(named.values(), named, loc="outside lower center", ncols=columns_of_legend, fontsize=8, frameon=False)
    with replaced_whole(output) as partial:
        figure.savefig(partial, dpi=150, format=output.suffix.lstrip("."))


def _styles(panels: Mapping[Cell, Sequence[Curve]]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each title; a dashed curve has those of the solid one before it."""
    styles: dict[str, tuple[str, str]] = {}
    place = -1
    for curve in (curve for curves in panels.values() for curve in curves):
        if curve.title not in styles:
            place += not curve.dashed
            styles[curve.title] = (COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)])
    return styles


def _draw(panel: Any, curve: Curve, color: str, marker: str, *, across: bool) -> Any:
    if across and len(curve.points) == 1:
        return panel.axhline(curve.points[0][1], color=color, linestyle=":", linewidth=1.2)
    style = "--" if curve.dashed else "-"
    xs, ys = zip(*curve.points, strict=True)
    return panel.plot(xs, ys, color=color, marker=marker, markersize=4, linestyle=style, linewidth=1.2)[0]
