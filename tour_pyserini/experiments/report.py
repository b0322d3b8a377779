"""The report of an experiment: tables in three formats, and figures."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.experiments.definition import Cell, Experiment, FigureOf
from tour_pyserini.experiments.figures import Cost, draw_panels, labels_per_query, panels
from tour_pyserini.experiments.latency import encoding_seconds, read_label_time, seconds_per_query
from tour_pyserini.experiments.locations import Places
from tour_pyserini.experiments.measuring import Measures, Rows
from tour_pyserini.experiments.result_tables import all_tables, split_tables
from tour_pyserini.experiments.table_lines import title_of
from tour_pyserini.support.files import atomic_write

ENDINGS = {"text": "txt", "markdown": "md", "latex": "tex"}


def known_seconds(rows: Rows, places: Places) -> Cost:
    """Seconds per query, where it was measured what a label costs."""

    @cache
    def measured(cell: Cell) -> tuple[float, float] | None:
        label = read_label_time(cell, places)
        alike = [row for other, measured in rows.items() if other[:2] == cell[:2] for row in measured.values()]
        return None if label is None else (label.seconds / label.pairs, encoding_seconds(alike))

    def seconds(cell: Cell, row: MeasuredRun, labels: int) -> float | None:
        known = measured(cell)
        return None if known is None or row.costs is None else seconds_per_query(row.costs, *known, labels=labels)

    return seconds


def tables_of(experiment: Experiment, rows: Rows, places: Places, how: Measures) -> list[Table]:
    """All tables of the report."""
    tables = all_tables(experiment, rows, known_seconds(rows, places))
    return [*tables, *split_tables(experiment, rows, places, how)]


def write_tables(tables: Sequence[Table], folder: Path) -> Iterator[Path]:
    """Write the tables as text, Markdown and LaTeX."""
    for name, ending in ENDINGS.items():
        path = folder / f"tables.{ending}"
        with atomic_write(path) as file:
            file.write("\n\n".join(FORMATS[name](table) for table in tables) + "\n")
        yield path


def write_figures(experiment: Experiment, rows: Rows, places: Places, folder: Path) -> Iterator[Path]:
    """Draw the figures whose curves have points; those of seconds need `--time-labels` first."""
    seconds = known_seconds(rows, places)
    for name, figure in experiment.figures.items():
        if figure.kind == "efficiency":
            yield from _draw(
                experiment, figure, rows, labels_per_query, "labels per query", folder / f"{name}-labels.png"
            )
            yield from _draw(experiment, figure, rows, seconds, "seconds per query", folder / f"{name}-seconds.png")
        else:
            cost = seconds if figure.kind == "seconds" else labels_per_query
            yield from _draw(experiment, figure, rows, cost, figure.measure, folder / f"{name}.png")


def _draw(experiment: Experiment, figure: FigureOf, rows: Rows, cost: Cost, y: str, output: Path) -> Iterator[Path]:
    shown = panels(experiment, figure, rows, cost)
    if not shown:
        return
    x = {"labels": "labels per query", "seconds": "seconds per query"}.get(figure.kind)
    x = x or experiment.sweeps[figure.curves[0]].flag
    titles = {cell: title_of(experiment, cell) for cell in shown}
    across = figure.kind in ("sweep", "efficiency")
    draw_panels(shown, titles, title=figure.title, x=x, y=y, across=across, output=output)
    yield output
