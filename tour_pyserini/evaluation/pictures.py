"""Pictures of the gains of runs over a baseline, query by query, and of what tuning found."""

import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.paired_tests import outcomes
from tour_pyserini.support.files import atomic_replace

GAIN, LOSS = "#009E73", "#D55E00"  # Okabe and Ito's green and vermilion, distinct for colour-blind readers
_SUFFIXES = (".png", ".pdf", ".svg")


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a file name with an unknown suffix, before anything is computed."""
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise TourError(f"{path} does not end with one of {', '.join(_SUFFIXES)}; rename the picture.")


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
    """The same picture as an SVG element, for notebooks."""
    import matplotlib

    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gains"}):  # words stay words; the same bytes
        _gains_figure(gained, baseline, measure).savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]


def _gains_figure(gained: Mapping[str, np.ndarray], baseline: str, measure: str) -> Any:
    figure, panels = figure_of(len(gained), share=True)
    for panel, (name, values) in zip(panels, gained.items(), strict=True):
        ordered = np.sort(values)[::-1]
        for part, color in ((np.clip(ordered, 0, None), GAIN), (np.clip(ordered, None, 0), LOSS)):
            panel.stairs(part, fill=True, color=color)
        panel.axhline(0, color="black", linewidth=0.6)
        wins, ties, losses = outcomes(ordered)
        counts = f"{wins} won, {ties} tied, {losses} lost, mean {ordered.mean():+.4f}"
        panel.set_title(f"{_short(name)}\n{counts}", fontsize=9, parse_math=False)
    figure.supxlabel("queries, from the largest gain to the largest loss", fontsize=10)
    figure.supylabel(f"gain in {measure}", fontsize=10)
    figure.suptitle(f"Gain over {_short(baseline)} by query", fontsize=10, parse_math=False)
    return figure


def draw_tuning(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    reliability: Sequence[tuple[float, float, int]],
    *,
    measure: str,
    output: str | os.PathLike[str],
) -> None:
    """Draw quality against labels, and the share of relevant hits against their probability.

    Args:
        curves: points (labels, quality) by name, in order of labels.
        reliability: probability, share and count of each bin; empty for no second panel.
        measure: the measure's name.
        output: a file that ends with .png, .pdf or .svg.
    """
    figure, panels = figure_of(2 if reliability else 1)
    for name, points in curves.items():
        panels[0].plot(*zip(*points, strict=True), marker="o", label=name)
    panels[0].set(xlabel="labels per query", ylabel=measure)
    panels[0].legend(fontsize=7, frameon=False)
    if reliability:
        told, share, counts = zip(*reliability, strict=True)
        panels[1].plot([0, 1], [0, 1], color="black", linewidth=0.6)
        panels[1].scatter(told, share, s=[10 + 2 * count**0.5 for count in counts])
        panels[1].set(xlabel="probability that a hit is relevant", ylabel="share that is relevant")
    save_picture(figure, output)


def figure_of(count: int, *, share: bool = False) -> tuple[Any, list[Any]]:
    """A figure of so many panels, three in a row, and the panels; with `share`, they have one scale upwards."""
    from matplotlib.figure import Figure

    columns = min(3, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(0.6 + 4.2 * columns, 0.9 + 2.6 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, sharey=share, squeeze=False).flat)
    for number, panel in enumerate(panels):
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axis_on() if number < count else panel.set_axis_off()
    return figure, panels[:count]


def _short(name: str, width: int = 48) -> str:
    return name if len(name) <= width else "..." + name[3 - width :]


def save_picture(figure: Any, output: str | os.PathLike[str]) -> None:
    """Write a figure of matplotlib's, whole or not at all, as PNG, PDF or SVG, as the file's name says."""
    with atomic_replace(output) as partial:
        figure.savefig(partial, dpi=150, format=Path(output).suffix.lower().lstrip("."))
