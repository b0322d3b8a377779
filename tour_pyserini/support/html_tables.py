"""Tables as HTML, for notebooks."""

from collections.abc import Sequence
from html import escape


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
