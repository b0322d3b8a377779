"""Tables of measured runs, and tables as text, Markdown, LaTeX and CSV."""

import csv
import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_measures import ScorerWithAnswers
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer
from tour_pyserini.evaluation.paired_tests import TITLES, BaselineComparison
from tour_pyserini.support.display import html_table

NO_SPLIT = "(no split)"


class Table(NamedTuple):
    """A table of text cells.

    Attributes:
        cells: rows of cells; the first row is the head.
        words: how many columns, from the left, are words; the others are numbers and are aligned right.
        title: the line above the table.
        legend: the line below the table: what its cells mean.
    """

    cells: Sequence[Sequence[str]]
    words: int = 1
    title: str = ""
    legend: str = ""

    def _repr_html_(self) -> str:
        return html_table(self.cells, words=self.words, title=self.title)


def as_text(table: Table, *, width: int | None = None) -> str:
    """Plain text with columns aligned by spaces.

    Args:
        table: the table.
        width: longest line in characters: a wider table is cut into parts, each with the columns of words; None for
            any length.
    """
    widths = [max(map(len, column)) for column in zip(*table.cells, strict=True)]
    parts = []
    for columns in _column_groups(widths, table.words, width):
        sides = [(i, str.ljust if i < table.words else str.rjust) for i in columns]
        lines = ["  ".join(side(line[i], widths[i]) for i, side in sides).rstrip() for line in table.cells]
        parts.append("\n".join(lines))
    title, legend = (textwrap.fill(text, width) if width else text for text in (table.title, table.legend))
    return "\n\n".join(filter(None, [title, *parts, legend]))


def _column_groups(widths: Sequence[int], words: int, most: int | None) -> Iterator[list[int]]:
    """The columns of each part of a table, by their positions."""
    group = list(range(words))
    for column in range(words, len(widths)):
        if most and len(group) > words and sum(widths[i] + 2 for i in [*group, column]) - 2 > most:
            yield group
            group = list(range(words))
        group.append(column)
    yield group


def as_markdown(table: Table) -> str:
    """A Markdown table."""

    def escaped(text: str) -> str:
        return text.replace("|", r"\|").replace("*", r"\*")

    head, *body = [list(map(escaped, line)) for line in table.cells]
    rule = ["---"] * table.words + ["---:"] * (len(head) - table.words)
    lines = "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *body])
    return "\n\n".join(filter(None, [escaped(table.title), lines, escaped(table.legend)]))


def as_latex(table: Table) -> str:
    """A LaTeX tabular with booktabs rules; title and legend are comments."""
    import pandas

    head, *body = table.cells
    columns = "l" * table.words + "r" * (len(head) - table.words)
    lines = pandas.DataFrame(body, columns=list(head)).to_latex(index=False, escape=True, column_format=columns)
    title, legend = (f"% {text}" if text else "" for text in (table.title, table.legend))
    return "\n".join(filter(None, [title, lines.rstrip("\n"), legend]))


def as_csv(table: Table) -> str:
    """Comma-separated values, quoted where needed, without title and legend."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(table.cells)
    return written.getvalue().rstrip("\n")


FORMATS: Mapping[str, Callable[[Table], str]] = MappingProxyType(
    {"text": as_text, "markdown": as_markdown, "latex": as_latex, "csv": as_csv}
)


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


def split_table(
    scorer: Scorer | ScorerWithAnswers, runs: Sequence[MeasuredRun], splits: Mapping[str, Set[str]]
) -> Table:
    """A row per split and run: judged queries of the split, means to four digits.

    Args:
        scorer: what measured the runs.
        runs: the runs.
        splits: the queries of each split; judged queries without a split come last, if there are any.
    """
    members = {name: np.array([query in ids for query in scorer.queries]) for name, ids in splits.items()}
    rest = ~np.any(list(members.values()), axis=0)
    if rest.all():
        raise TourError(
            "none of the queries in the splits is judged; check that splits and judgements belong together."
        )
    if rest.any():
        members[NO_SPLIT] = rest
    body = []
    for split, kept in members.items():
        for run in runs:
            means = {measure: scorer.aggregate(measure, values[kept]) for measure, values in run.values.items()}
            body.append([split, run.name, str(kept.sum()), *_numbers(means)])
    return Table([["split", "run", "queries", *runs[0].means], *body], words=2, title="By split")


def _numbers(means: Mapping[str, float]) -> list[str]:
    return ["-" if math.isnan(mean) else f"{mean:.4f}" for mean in means.values()]


def _p_value(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"


def _costs(run: MeasuredRun) -> list[str]:
    if run.costs is None:
        return ["-", "-"]
    queries = max(run.costs.queries, 1)
    return [f"{run.costs.pairs / queries:.1f}", f"{run.costs.updates / queries:.2f}"]
