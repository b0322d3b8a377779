"""A picture of the gains of runs over a baseline, query by query."""

import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.paired_tests import outcomes
from tour_pyserini.support.display import GAIN, LOSS, save_picture

SUFFIXES = (".png", ".pdf", ".svg")
_CROWDED = 80  # from this many queries on, bars have no gaps between them


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a file name with an unknown suffix, before anything is computed."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise TourError(f"{path} does not end with one of {', '.join(SUFFIXES)}; give a picture one of these suffixes.")


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
    check_picture(output)
    save_picture(_figure(gained, baseline, measure), output)


def gains_svg(gained: Mapping[str, np.ndarray], *, baseline: str, measure: str) -> str:
    """The same picture as an SVG element, for notebooks; "" if there is no run or no query."""
    if not any(values.size for values in gained.values()):
        return ""
    import matplotlib

    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gains"}):  # words stay words; the same bytes
        _figure(gained, baseline, measure).savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]


def _figure(gained: Mapping[str, np.ndarray], baseline: str, measure: str) -> Any:
    from matplotlib.figure import Figure

    columns = min(3, len(gained)) if len(gained) != 4 else 2
    rows = math.ceil(len(gained) / columns)
    figure = Figure(figsize=(0.6 + 4.2 * columns, 0.9 + 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).flat
    for panel, (name, values) in zip(panels, gained.items(), strict=False):
        _draw_panel(panel, name, values)
    for panel in panels[len(gained) :]:
        panel.set_axis_off()
    figure.supxlabel("queries, from the largest gain to the largest loss", fontsize=10)
    figure.supylabel(f"gain in {measure}", fontsize=10)
    figure.suptitle(f"Gain over {_short(baseline)} by query", fontsize=10, parse_math=False)
    return figure


def _draw_panel(panel: Any, name: str, values: np.ndarray) -> None:
    ordered = np.sort(values)[::-1]
    gap = 0.1 if ordered.size < _CROWDED else 0.0
    wins, ties, losses = outcomes(ordered)
    for part, color in ((np.clip(ordered, 0, None), GAIN), (np.clip(ordered, None, 0), LOSS)):
        panel.stairs(*_outline(part, gap), fill=True, color=color, linewidth=0)
    panel.axhline(0, color="black", linewidth=0.6)
    panel.set_title(
        f"{_short(name)}\n{wins} won, {ties} tied, {losses} lost, mean {ordered.mean():+.4f}",
        fontsize=9,
        parse_math=False,
    )
    panel.margins(x=0.015)
    panel.tick_params(labelsize=8)
    panel.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _outline(values: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Heights and edges of bars with a gap on either side; one outline is much faster to draw than 1,000 bars."""
    left = np.arange(values.size)
    edges = np.stack([left, left + gap, left + 1 - gap], axis=1).ravel()
    heights = np.stack([np.zeros_like(values), values, np.zeros_like(values)], axis=1).ravel()
    return heights, np.append(edges, values.size)


def _short(name: str, width: int = 48) -> str:
    return name if len(name) <= width else "..." + name[3 - width :]
