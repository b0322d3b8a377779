"""The report of an experiment: tables in three formats, and figures."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.experiments.definition import Experiment, FigureDefinition, Setup
from tour_pyserini.experiments.figures import Cost, curves_by_setup, draw_panels, labels_per_query
from tour_pyserini.experiments.latency import encoding_seconds, read_label_time, seconds_per_query
from tour_pyserini.experiments.locations import Locations
from tour_pyserini.experiments.measuring import Results, Scorers
from tour_pyserini.experiments.result_tables import setup_title, split_tables, tables
from tour_pyserini.support.files import atomic_write

_ENDINGS = {"text": "txt", "markdown": "md", "latex": "tex"}
_COST_AXES = {"labels": "labels per query", "seconds": "seconds per query"}


def report_tables(experiment: Experiment, results: Results, locations: Locations, scorers: Scorers) -> list[Table]:
    """All tables of the report."""
    seconds = _seconds_cost(results, locations)
    return [*tables(experiment, results, seconds), *split_tables(experiment, results, locations, scorers)]


def write_tables(tables: Sequence[Table], folder: Path) -> Iterator[Path]:
    """Write the tables as text, Markdown and LaTeX."""
    for name, ending in _ENDINGS.items():
        path = folder / f"tables.{ending}"
        with atomic_write(path) as file:
            file.write("\n\n".join(FORMATS[name](table) for table in tables) + "\n")
        yield path


def write_figures(experiment: Experiment, results: Results, locations: Locations, folder: Path) -> Iterator[Path]:
    """Draw the figures that have points; figures of seconds need `--time-labels` first."""
    seconds = _seconds_cost(results, locations)
    costs = {"labels": labels_per_query, "seconds": seconds}
    for name, figure in experiment.figures.items():
        if figure.kind == "efficiency":
            for unit, cost in costs.items():
                output = folder / f"{name}-{unit}.png"
                yield from _draw(experiment, figure, results, cost, y=_COST_AXES[unit], output=output)
        else:
            cost = seconds if figure.kind == "seconds" else labels_per_query
            yield from _draw(experiment, figure, results, cost, y=figure.measure, output=folder / f"{name}.png")


def _seconds_cost(results: Results, locations: Locations) -> Cost:
    """Seconds per query of a run; None if the time of a label was not measured."""

    @cache
    def times(setup: Setup) -> tuple[float, float] | None:
        """Seconds per label, and seconds to encode a query."""
        label = read_label_time(setup, locations)
        same_encoder = [run for other, runs in results.items() if other[:2] == setup[:2] for run in runs.values()]
        return None if label is None else (label.seconds / label.pairs, encoding_seconds(same_encoder))

    def seconds(setup: Setup, run: MeasuredRun, labels: int) -> float | None:
        known = times(setup)
        return None if known is None or run.costs is None else seconds_per_query(run.costs, *known, labels=labels)

    return seconds


def _draw(
    experiment: Experiment, figure: FigureDefinition, results: Results, cost: Cost, *, y: str, output: Path
) -> Iterator[Path]:
    panels = curves_by_setup(experiment, figure, results, cost)
    if not panels:
        return
    x = _COST_AXES.get(figure.kind) or experiment.sweeps[figure.curves[0]].flag
    titles = {setup: setup_title(experiment, setup) for setup in panels}
    across = figure.kind in ("sweep", "efficiency")
    draw_panels(panels, titles, title=figure.title, x=x, y=y, across=across, output=output)
    yield output
