"""Tables as text, Markdown, LaTeX and CSV."""

import csv
import io
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tour_pyserini.evaluation.table import Table

_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${sign}$" for sign in "<>|"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def as_text(table: Table) -> str:
    """Columns aligned by blanks."""
    widths = [max(len(cell) for cell in column) for column in zip(*table.cells, strict=True)]
    lines = []
    for line in table.cells:
        words = map(str.ljust, line[: table.words], widths)
        numbers = map(str.rjust, line[table.words :], widths[table.words :])
        lines.append("  ".join([*words, *numbers]).rstrip())
    return "\n".join([*_title(table), *lines])


def as_markdown(table: Table) -> str:
    """A Markdown table."""
    head, *body = [[cell.replace("|", r"\|").replace("*", r"\*") for cell in line] for line in table.cells]
    rule = ["---"] * table.words + ["---:"] * (len(head) - table.words)
    title = [line.replace("*", r"\*") for line in _title(table)]
    return "\n".join([*title, *("| " + " | ".join(line) + " |" for line in [head, rule, *body])])


def as_latex(table: Table) -> str:
    """A tabular with the rules of the package booktabs; the title is a comment."""
    head, *body = [" & ".join(map(_latex, line)) + r" \\" for line in table.cells]
    columns = "l" * table.words + "r" * (len(table.cells[0]) - table.words)
    title = [f"% {table.title}"] if table.title else []
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([*title, begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", end])


def as_csv(table: Table) -> str:
    """Comma-separated values, quoted where needed, without the title."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(table.cells)
    return written.getvalue().rstrip("\n")


FORMATS: Mapping[str, Callable[[Table], str]] = MappingProxyType(
    {"text": as_text, "markdown": as_markdown, "latex": as_latex, "csv": as_csv}
)


def _title(table: Table) -> list[str]:
    return [table.title, ""] if table.title else []


def _latex(cell: str) -> str:
    escaped = "".join(_LATEX.get(sign, sign) for sign in cell)
    # A hyphen is not a minus sign, and in front of a number it is meant as one.
    return re.sub(r"^-(?=\d)", "$-$", escaped)
