"""Figures of an experiment: curves in small multiples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.experiments.definition import Cell, Experiment, FigureOf
from tour_pyserini.experiments.measuring import Rows
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_replace


class Curve(NamedTuple):
    """Points (x, y) by x; `dashed` where labels are not used again; a curve of one point stands alone."""

    title: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


Cost = Callable[[Cell, MeasuredRun, int], float | None]
"""Labels or seconds per query of a run that pays for so many labels, where they are known."""


def labels_per_query(_: Cell, row: MeasuredRun, labels: int) -> float:
    """Labels per query."""
    return labels / max(_costs(row).queries, 1)


def panels(experiment: Experiment, figure: FigureOf, rows: Rows, cost: Cost) -> Mapping[Cell, Sequence[Curve]]:
    """The curves of each cell that has any."""
    shown = {cell: list(_curves(experiment, figure, cell, measured, cost)) for cell, measured in rows.items()}
    return {cell: curves for cell, curves in shown.items() if any(len(curve.points) > 1 for curve in curves)}


def _curves(
    experiment: Experiment, figure: FigureOf, cell: Cell, rows: Mapping[str, MeasuredRun], cost: Cost
) -> Iterator[Curve]:
    costly = {name: row for name, row in rows.items() if row.costs is not None and figure.measure in row.means}
    for curve in figure.curves:
        swept = {n: row for n, row in costly.items() if experiment.conditions[n].sweep == curve}
        for again in (True, False) if figure.kind == "efficiency" else (True,):
            points = [_point(experiment, figure, cell, name, row, cost, again) for name, row in swept.items()]
            known = sorted(point for point in points if point is not None)
            yield Curve(experiment.sweeps[curve].title + ("" if again else ", no label used again"), known, not again)
    for name in figure.lines:
        if name in costly and (point := _point(experiment, figure, cell, name, costly[name], cost, True)):
            yield Curve(experiment.conditions[name].title, [point])


def _point(
    experiment: Experiment, figure: FigureOf, cell: Cell, name: str, row: MeasuredRun, cost: Cost, again: bool
) -> tuple[float, float] | None:
    costs, value = _costs(row), experiment.conditions[name].value
    paid = cost(cell, row, costs.pairs + (0 if again else costs.reused))
    if figure.kind == "sweep":
        return (0.0 if value is None else value, row.means[figure.measure])
    if paid is None:
        return None
    return (value or 0.0, paid) if figure.kind == "efficiency" else (paid, row.means[figure.measure])


def _costs(row: MeasuredRun) -> Costs:
    assert row.costs is not None
    return row.costs


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
    with atomic_replace(output) as partial:
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
