"""The gains of runs over a baseline, query by query: a figure for notebooks."""

from collections.abc import Mapping

import numpy as np

from tour_pyserini.evaluation.paired_tests import outcomes
from tour_pyserini.support.svg_figures import GAIN, LOSS, Point, svg_area, svg_figure, svg_line, svg_text

_WIDTH, _BARS, _LEFT, _TOP = 480, 80, 52, 22  # pixels: of a panel, of its bars' height, and around them
_PANEL = _BARS + _TOP + 14


def gains_figure(gained: Mapping[str, np.ndarray], *, baseline: str, measure: str) -> str:
    """Sorted bars, one panel for each run; all panels have one scale. "" if there is no run or no query.

    Args:
        gained: run name to differences from the baseline, float64 [queries].
        baseline: the baseline's name.
        measure: the measure's name.
    """
    if not any(values.size for values in gained.values()):
        return ""
    largest = max(float(np.abs(values).max()) for values in gained.values()) or 1.0
    parts, texts = [], []
    for number, (name, values) in enumerate(gained.items()):
        wins, ties, losses = outcomes(values)
        text = f"{wins} won, {ties} tied, {losses} lost, mean {values.mean():+.4f}"
        top = number * _PANEL
        middle = top + _TOP + _BARS / 2
        parts.append(svg_text((4, top + 14), f"{_short(name)}: {text}", bold=True))
        for height, label in ((largest, f"{largest:+.2f}"), (0.0, "0"), (-largest, f"{-largest:+.2f}")):
            parts.append(svg_text((_LEFT - 6, middle - height / largest * _BARS / 2 + 4), label, anchor="end"))
        ordered = np.sort(values)[::-1] / largest * _BARS / 2
        for part, colour in ((np.clip(ordered, 0, None), GAIN), (np.clip(ordered, None, 0), LOSS)):
            parts.append(svg_area(_outline(part, middle), colour=colour))
        parts.append(svg_line([(_LEFT, middle), (_WIDTH, middle)]))
        texts.append(f"{name}: {text}")
    height = _PANEL * len(gained) + 18
    parts.append(svg_text((_LEFT, height - 6), f"queries, from the largest gain in {measure} to the largest loss"))
    title = f"Gain in {measure} over {baseline} by query"
    return svg_figure(parts, width=_WIDTH + 10, height=height, title=title, description="; ".join(texts))


def _short(name: str, width: int = 28) -> str:
    return name if len(name) <= width else "..." + name[3 - width :]


def _outline(heights: np.ndarray, middle: float) -> list[Point]:
    """The corners of bars without gaps: one area is much smaller than a thousand bars."""
    step = (_WIDTH - _LEFT) / heights.size
    points: list[Point] = [(_LEFT, middle)]
    for row, height in enumerate(heights.tolist()):
        points += [(_LEFT + row * step, middle - height), (_LEFT + (row + 1) * step, middle - height)]
    return [*points, (_WIDTH, middle)]
