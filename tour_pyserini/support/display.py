"""Results for people: tables as HTML for notebooks, and pictures drawn by matplotlib as small files."""

import io
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from tour_pyserini.support.files import atomic_replace


def html_table(cells: Sequence[Sequence[str]], *, words: int = 1, title: str = "") -> str:
    """A table of text cells as HTML; the cells are shown as they are, whatever they contain.

    Args:
        cells: rows of cells; the first row is the head.
        words: how many columns, from the left, are words; the others are numbers and are aligned right.
        title: the line above the table.
    """
    head, *body = cells
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    rows = "".join(f"<tr>{_line('td', line, words)}</tr>" for line in body)
    return f"<table>{caption}<thead><tr>{_line('th', head, words)}</tr></thead><tbody>{rows}</tbody></table>"


def _line(tag: str, line: Sequence[str], words: int) -> str:
    sides = ["left"] * words + ["right"] * (len(line) - words)
    return "".join(
        f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>' for side, cell in zip(sides, line, strict=True)
    )


GAIN, LOSS = "#009E73", "#D55E00"  # Okabe and Ito's green and vermilion, distinct for colour-blind readers

COLOURS = 256
"""Colours of a PNG picture. Diagrams need no more, and their files are a third of the size of those with all."""


def save_picture(figure: Any, output: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Write a figure, whole or not at all.

    Args:
        figure: a figure of matplotlib's.
        output: its file; what it ends with (.png, .pdf, .svg) is its format, and PNG is the format without one.
        dpi: pixels per inch.
    """
    kind = Path(output).suffix.lower().lstrip(".") or "png"
    with atomic_replace(output) as partial:
        if kind == "png":
            _write_png(figure, partial, dpi=dpi)
        else:
            figure.savefig(partial, dpi=dpi, format=kind)


def _write_png(figure: Any, path: Path, *, dpi: int) -> None:
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi, format="png")
    with Image.open(drawn) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, format="png", optimize=True, dpi=(dpi, dpi))
