"""All measurements in one picture."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Bars, Report
from tour_pyserini.support.files import atomic_replace

# Okabe and Ito's blue, vermilion, green and purple, which colour-blind readers tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
COLUMNS = 2


def draw(reports: Sequence[Report], output: Path) -> None:
    """Draw a panel per measurement, and three for growth."""
    from matplotlib.figure import Figure

    panels = [(report, panel) for report in reports for panel in report.panels]
    if not panels:
        return
    rows = math.ceil(len(panels) / COLUMNS)
    figure = Figure(figsize=(6.2 * COLUMNS, 2.5 * rows), layout="constrained")
    places = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for axes, (report, panel) in zip(places, panels, strict=False):
        (_bars if isinstance(panel, Bars) else _lines)(axes, panel)
        axes.set_title(f"({report.name}) {report.title}", fontsize=10, loc="left")
        axes.tick_params(labelsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    with atomic_replace(output) as partial:
        figure.savefig(partial, dpi=150, format="png")


def _bars(axes: Any, panel: Any) -> None:
    names, values = zip(*panel.values.items(), strict=True)
    axes.barh(names[::-1], values[::-1], color=COLOURS[0], height=0.6)
    for place, value in enumerate(values[::-1]):
        axes.annotate(f" {value:.3g}", (value, place), va="center", fontsize=8)
    if panel.target is not None:
        axes.axvline(panel.target, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set_xlabel(panel.unit, fontsize=8)
    axes.margins(x=0.12)


def _lines(axes: Any, panel: Any) -> None:
    for colour, (name, points) in zip(COLOURS, panel.series.items(), strict=False):
        xs, ys = zip(*points, strict=True)
        axes.loglog(xs, ys, marker="o", markersize=4, color=colour, label=name)
    axes.set_xlabel(panel.x, fontsize=8)
    axes.set_ylabel(panel.y, fontsize=8)
    axes.legend(fontsize=8, frameon=False)
