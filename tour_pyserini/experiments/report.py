"""The report of an experiment: tables in three formats, and figures."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.formats import FORMATS
from tour_pyserini.evaluation.table import Table
from tour_pyserini.experiments.cells import Cell
from tour_pyserini.experiments.definition import Experiment
from tour_pyserini.experiments.latency import encoding_seconds, read_label_time, seconds_per_query
from tour_pyserini.experiments.measuring import Rows
from tour_pyserini.experiments.places import Places
from tour_pyserini.experiments.tables import Seconds, all_tables
from tour_pyserini.files import written_whole

ENDINGS = {"text": "txt", "markdown": "md", "latex": "tex"}


def known_seconds(rows: Rows, places: Places) -> Seconds:
    """Seconds per query, where it was measured what a label costs."""

    @cache
    def measured(cell: Cell) -> tuple[float, float] | None:
        label = read_label_time(cell, places)
        return None if label is None else (label.seconds / label.pairs, encoding_seconds(rows[cell]))

    def seconds(cell: Cell, row: Row) -> float | None:
        known = measured(cell)
        return None if known is None or row.costs is None else seconds_per_query(row.costs, *known)

    return seconds


def tables_of(experiment: Experiment, rows: Rows, places: Places) -> list[Table]:
    """All tables of the report."""
    return list(all_tables(experiment, rows, known_seconds(rows, places)))


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write the tables as text, Markdown and LaTeX."""
    written = []
    for name, ending in ENDINGS.items():
        path = folder / f"tables.{ending}"
        with written_whole(path) as file:
            file.write("\n\n".join(FORMATS[name](table) for table in tables) + "\n")
        written.append(path)
    return written
