"""Tables of a comparison of runs, and tables as text, Markdown, LaTeX and CSV."""

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tour_pyserini.evaluation.comparison import BaselineComparison, SplitRow
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import TITLES
from tour_pyserini.support.html_tables import html_table

_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${sign}$" for sign in "<>|"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


class Table(NamedTuple):
    """A table of text cells.

    Attributes:
        cells: rows of cells; the first row is the head.
        words: how many columns, from the left, are words; the others are numbers and are aligned right.
        title: the line above the table.
    """

    cells: Sequence[Sequence[str]]
    words: int = 1
    title: str = ""

    def _repr_html_(self) -> str:
        return html_table(self.cells, words=self.words, title=self.title)


def as_text(table: Table) -> str:
    """Plain text with columns aligned by spaces."""
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
    """A LaTeX tabular with booktabs rules; the title is a comment."""
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
    # A hyphen before a number is meant as a minus sign.
    return re.sub(r"^-(?=\d)", "$-$", escaped)


def means_table(runs: Sequence[MeasuredRun]) -> Table:
    """A row per run: means to four digits, labels and updates per query.

    If a run has no hits for some judged queries, the column `answered` shows for how many each run has hits.
    """
    head = ["run", "answered", *runs[0].means, "labels/query", "updates/query"]
    cells = [head, *([run.name, str(run.answered.sum()), *_numbers(run.means), *_costs(run)] for run in runs)]
    if all(run.answered.all() for run in runs):
        cells = [[line[0], *line[2:]] for line in cells]
    return Table(cells)


def comparison_table(comparisons: Sequence[BaselineComparison], baseline: str, *, test: str, alpha: float) -> Table:
    """A row per run and measure: difference, wins, ties, losses, p, Holm's p, and a star if that is at most alpha."""
    count = f"{len(comparisons)} comparison{'s' if len(comparisons) > 1 else ''}"
    title = f"Against {baseline}: {TITLES[test]}, Holm's correction over {count}; * significant at {alpha:g}"
    head = ["run", "measure", "difference", "wins", "ties", "losses", "p", "p (Holm)", "significant"]
    body = [
        [
            *(compared.run, compared.measure, f"{compared.difference:+.4f}", *map(str, compared.outcomes)),
            *(_p_value(compared.p), _p_value(compared.adjusted), "*" if compared.adjusted <= alpha else ""),
        ]
        for compared in comparisons
    ]
    return Table([head, *body], words=2, title=title)


def split_table(rows: Sequence[SplitRow]) -> Table:
    """A row per split and run: judged queries of the split, means to four digits."""
    head = ["split", "run", "queries", *rows[0].means]
    body = [[row.split, row.run, str(row.queries), *_numbers(row.means)] for row in rows]
    return Table([head, *body], words=2, title="By split")


def _numbers(means: Mapping[str, float]) -> list[str]:
    return ["-" if math.isnan(mean) else f"{mean:.4f}" for mean in means.values()]


def _p_value(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"


def _costs(run: MeasuredRun) -> list[str]:
    if run.costs is None:
        return ["-", "-"]
    queries = max(run.costs.queries, 1)
    return [f"{run.costs.pairs / queries:.1f}", f"{run.costs.updates / queries:.2f}"]
