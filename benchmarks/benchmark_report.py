"""The report of a measurement: a table, a note and panels; written to a Markdown document and drawn as a picture."""

import math
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.pictures import save_picture
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.support.files import atomic_write

# Okabe and Ito's blue, vermilion, green, purple, orange and sky blue, distinct for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
COLUMNS = 2  # of panels in the picture
PAGE_WIDTH = 120  # characters in a line of a document


class Bars(NamedTuple):
    """A panel with a bar per name; `target` is the value that was aimed at."""

    unit: str
    values: Mapping[str, float]
    target: float | None = None


class Lines(NamedTuple):
    """A panel with series of (x, y), x on a logarithmic scale, and y too unless it is `even`; at most six."""

    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    even: bool = False


class Report(NamedTuple):
    """One measurement.

    Attributes:
        name: as --only and the document name it.
        title: of the table and the panels.
        table: the figures.
        note: how they were measured.
        panels: for the picture.
    """

    name: str
    title: str
    table: Table
    note: str
    panels: Sequence[Bars | Lines] = ()


def check_document(path: str | os.PathLike[str], names: Sequence[str]) -> None:
    """Check, before the measurements, that the document has the two marks of each report."""
    text = _read(path)
    for name in names:
        if not _between_marks(name).search(text):
            raise TourError(
                f"{path} has no marks for the table ({name}): add the lines <!-- {name} --> and <!-- end of {name} -->."
            )


def fill_document(path: str | os.PathLike[str], reports: Sequence[Report], *, machine: str) -> None:
    """Put each report's table, note and the description of the machine between its two marks in a document."""
    text = _read(path)
    for report in reports:
        begin, end = _between_marks(report.name).search(text).span(1)  # type: ignore[union-attr]
        note = textwrap.fill(f"{report.note} {machine}", PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)
        text = f"{text[:begin]}{FORMATS['markdown'](report.table)}\n\n{note}\n{text[end:]}"
    with atomic_write(path) as file:
        file.write(text)


def draw_picture(reports: Sequence[Report], output: Path) -> None:
    """Draw all panels of the reports in one PNG picture; nothing if there are none."""
    from matplotlib.figure import Figure

    panels = [(report, panel) for report in reports for panel in report.panels]
    if not panels:
        return
    rows = math.ceil(len(panels) / COLUMNS)
    figure = Figure(figsize=(6.2 * COLUMNS, 2.5 * rows), layout="constrained")
    all_axes = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for axes, (report, panel) in zip(all_axes, panels, strict=False):
        (_draw_bars if isinstance(panel, Bars) else _draw_lines)(axes, panel)
        axes.set_title(f"({report.name}) {report.title}", fontsize=10, loc="left")
        axes.tick_params(labelsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    save_picture(figure, output)


def _between_marks(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- end of {re.escape(name)} -->", re.DOTALL)


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TourError(f"cannot read the document {path}: {error.strerror}.") from error


def _draw_bars(axes: Any, panel: Any) -> None:
    names, values = zip(*panel.values.items(), strict=True)
    axes.barh(names[::-1], values[::-1], color=COLOURS[0], height=0.6)
    for row, value in enumerate(values[::-1]):
        axes.annotate(f" {value:.3g}", (value, row), va="center", fontsize=8)
    if panel.target is not None:
        axes.axvline(panel.target, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set_xlabel(panel.unit, fontsize=8)
    axes.margins(x=0.12)


def _draw_lines(axes: Any, panel: Any) -> None:
    for (name, points), colour in zip(panel.series.items(), COLOURS[: len(panel.series)], strict=True):
        xs, ys = zip(*points, strict=True)
        (axes.semilogx if panel.even else axes.loglog)(xs, ys, marker="o", markersize=4, color=colour, label=name)
        if panel.even:
            axes.set_xticks(xs, labels=[f"{x:g}" for x in xs])
            axes.minorticks_off()
    axes.set_xlabel(panel.x, fontsize=8)
    axes.set_ylabel(panel.y, fontsize=8)
    axes.legend(fontsize=8, frameon=False)
