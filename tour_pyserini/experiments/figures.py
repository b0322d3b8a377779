"""Figures of an experiment: a grid of panels, one for each setup, with several curves each."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.experiments.definition import Experiment, FigureDefinition, Setup
from tour_pyserini.experiments.latency import Cost, seconds_cost
from tour_pyserini.experiments.measuring import Results
from tour_pyserini.experiments.planning import Locations
from tour_pyserini.experiments.tables import setup_title
from tour_pyserini.support.display import save_picture

# The colours of Okabe and Ito, which colour-blind readers can distinguish, and two more.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B22222", "#888888")
MARKERS = "osD^vPX*"


class Curve(NamedTuple):
    """Points (x, y) in order of x."""

    title: str
    points: Sequence[tuple[float, float]]


def write_figures(experiment: Experiment, results: Results, locations: Locations, folder: Path) -> Iterator[Path]:
    """Draw the figures that have points; figures of seconds need `--time-labels` first."""
    seconds = seconds_cost(results, locations)
    for name, figure in experiment.figures.items():
        panels = curves_by_setup(experiment, figure, results, seconds if figure.kind == "seconds" else labels_per_query)
        if panels:
            swept = figure.kind == "sweep"
            x = experiment.sweeps[figure.curves[0]].flag if swept else f"{figure.kind} per query"
            titles = {setup: setup_title(experiment, setup) for setup in panels}
            output = folder / f"{name}.png"
            draw_panels(panels, titles, title=figure.title, x=x, y=figure.measure, across=swept, output=output)
            yield output


def labels_per_query(_: Setup, run: MeasuredRun) -> float | None:
    """A `Cost`: labels per query."""
    return None if run.costs is None else run.costs.pairs / max(run.costs.queries, 1)


def curves_by_setup(
    experiment: Experiment, figure: FigureDefinition, results: Results, cost: Cost
) -> Mapping[Setup, Sequence[Curve]]:
    """The curves of each setup; setups without any curve of two points are left out."""
    curves = {setup: list(_curves(experiment, figure, setup, runs, cost)) for setup, runs in results.items()}
    return {setup: own for setup, own in curves.items() if any(len(curve.points) > 1 for curve in own)}


def _curves(
    experiment: Experiment, figure: FigureDefinition, setup: Setup, runs: Mapping[str, MeasuredRun], cost: Cost
) -> Iterator[Curve]:
    """A curve for each sweep, and one point for each line."""
    points: dict[str, tuple[float, float]] = {}
    for name, run in runs.items():
        x = (experiment.conditions[name].value or 0.0) if figure.kind == "sweep" else cost(setup, run)
        if x is not None and figure.measure in run.means:
            points[name] = (x, run.means[figure.measure])
    for sweep in figure.curves:
        swept = [point for name, point in points.items() if experiment.conditions[name].sweep == sweep]
        yield Curve(experiment.sweeps[sweep].title, sorted(swept))
    for name in figure.lines:
        if name in points:
            yield Curve(experiment.conditions[name].title, [points[name]])


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
    from matplotlib.figure import Figure

    columns = list(dict.fromkeys(setup.collection for setup in panels))
    rows = list(dict.fromkeys(setup[1:4] for setup in panels))
    figure = Figure(figsize=(1.2 + 3.1 * len(columns), 1.6 + 2.4 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    legend: dict[str, Any] = {}
    names = list(dict.fromkeys(curve.title for curves in panels.values() for curve in curves))
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
                legend[curve.title] = _draw_curve(panel, curve, names.index(curve.title), across=across)
    figure.suptitle(title, fontsize=10, parse_math=False)
    legend_columns = max(1, min(4, len(legend), len(columns)))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=legend_columns, fontsize=8, frameon=False)
    save_picture(figure, output)


def _draw_curve(panel: Any, curve: Curve, number: int, *, across: bool) -> Any:
    """Draw a curve in the colour and with the marker of its number."""
    color = COLORS[number % len(COLORS)]
    if across and len(curve.points) == 1:
        return panel.axhline(curve.points[0][1], color=color, linestyle=":", linewidth=1.2)
    xs, ys = zip(*curve.points, strict=True)
    return panel.plot(xs, ys, color=color, marker=MARKERS[number % len(MARKERS)], markersize=4, linewidth=1.2)[0]
