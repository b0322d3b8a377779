"""Figures of an experiment: a grid of panels, one for each setup, with several curves each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.experiments.definition import Experiment, FigureDefinition, Setup
from tour_pyserini.experiments.measuring import Results
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.pictures import save_picture

# The colours of Okabe and Ito, which colour-blind readers can distinguish, and two more.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B22222", "#888888")
MARKERS = "osD^vPX*"


class Curve(NamedTuple):
    """Points (x, y) in order of x. A dashed curve shows the cost without reused labels."""

    title: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


Cost = Callable[[Setup, MeasuredRun, int], float | None]
"""Called as `cost(setup, run, labels)`: labels or seconds per query of a run that pays for `labels` labels in all;
None if unknown."""


def labels_per_query(_: Setup, run: MeasuredRun, labels: int) -> float:
    """A `Cost`: labels per query."""
    return labels / max(_costs(run).queries, 1)


def curves_by_setup(
    experiment: Experiment, figure: FigureDefinition, results: Results, cost: Cost
) -> Mapping[Setup, Sequence[Curve]]:
    """The curves of each setup; setups without any curve of two points are left out."""
    curves = {setup: list(_curves(experiment, figure, setup, runs, cost)) for setup, runs in results.items()}
    return {setup: own for setup, own in curves.items() if any(len(curve.points) > 1 for curve in own)}


def draw_panels(
    panels: Mapping[Setup, Sequence[Curve]],
    titles: Mapping[Setup, str],
    *,
    title: str,
    x: str,
    y: str,
    across: bool,
    output: Path,
) -> None:
    """Draw one panel for each setup: a column for each collection, a row for each encoder, index and re-ranker.

    Args:
        panels: the curves of each setup.
        titles: the title of each panel.
        title: the title of the figure.
        x: the name of the horizontal axis.
        y: the name of the vertical axis.
        across: draw curves of one point as horizontal lines.
        output: a .png, .pdf or .svg file.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TourError("figures need matplotlib; run: pip install matplotlib") from error

    columns = list(dict.fromkeys(setup.collection for setup in panels))
    rows = list(dict.fromkeys(setup[1:4] for setup in panels))
    figure = Figure(figsize=(1.2 + 3.1 * len(columns), 1.6 + 2.4 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    legend: dict[str, Any] = {}
    styles = _styles(panels)
    for panel in grid.flat:
        panel.set_axis_off()
    for setup, curves in panels.items():
        panel = grid[rows.index(setup[1:4])][columns.index(setup.collection)]
        panel.set_axis_on()
        panel.set_title(titles[setup], fontsize=8, parse_math=False)
        panel.tick_params(labelsize=7)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        panel.set_xlabel(x, fontsize=8, parse_math=False)
        panel.set_ylabel(y, fontsize=8, parse_math=False)
        if all(point[0].is_integer() for curve in curves for point in curve.points):
            panel.xaxis.get_major_locator().set_params(integer=True)
        for curve in curves:
            if curve.points:
                legend[curve.title] = _draw_curve(panel, curve, *styles[curve.title], across=across)
    figure.suptitle(title, fontsize=10, parse_math=False)
    legend_columns = max(1, min(4, len(legend), len(columns)))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=legend_columns, fontsize=8, frameon=False)
    save_picture(figure, output)


def _curves(
    experiment: Experiment, figure: FigureDefinition, setup: Setup, runs: Mapping[str, MeasuredRun], cost: Cost
) -> Iterator[Curve]:
    """A curve for each sweep (for efficiency also one without reused labels), and one point for each line."""
    known = {name: run for name, run in runs.items() if run.costs is not None and figure.measure in run.means}
    for sweep in figure.curves:
        swept = {name: run for name, run in known.items() if experiment.conditions[name].sweep == sweep}
        for reuse in (True, False) if figure.kind == "efficiency" else (True,):
            points = [_point(experiment, figure, setup, name, run, cost, reuse) for name, run in swept.items()]
            title = experiment.sweeps[sweep].title + ("" if reuse else ", no label used again")
            yield Curve(title, sorted(point for point in points if point is not None), dashed=not reuse)
    for name in figure.lines:
        if name in known and (point := _point(experiment, figure, setup, name, known[name], cost, True)):
            yield Curve(experiment.conditions[name].title, [point])


def _point(
    experiment: Experiment, figure: FigureDefinition, setup: Setup, name: str, run: MeasuredRun, cost: Cost, reuse: bool
) -> tuple[float, float] | None:
    costs, value = _costs(run), experiment.conditions[name].value
    paid = cost(setup, run, costs.pairs + (0 if reuse else costs.reused))
    if figure.kind == "sweep":
        return (0.0 if value is None else value, run.means[figure.measure])
    if paid is None:
        return None
    return (value or 0.0, paid) if figure.kind == "efficiency" else (paid, run.means[figure.measure])


def _costs(run: MeasuredRun) -> Costs:
    assert run.costs is not None
    return run.costs


def _styles(panels: Mapping[Setup, Sequence[Curve]]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each title; a dashed curve has those of the solid curve before it."""
    styles: dict[str, tuple[str, str]] = {}
    number = -1
    for curve in (curve for curves in panels.values() for curve in curves):
        if curve.title not in styles:
            number += not curve.dashed
            styles[curve.title] = (COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)])
    return styles


def _draw_curve(panel: Any, curve: Curve, color: str, marker: str, *, across: bool) -> Any:
    if across and len(curve.points) == 1:
        return panel.axhline(curve.points[0][1], color=color, linestyle=":", linewidth=1.2)
    style = "--" if curve.dashed else "-"
    xs, ys = zip(*curve.points, strict=True)
    return panel.plot(xs, ys, color=color, marker=marker, markersize=4, linestyle=style, linewidth=1.2)[0]
