"""What a comparison says, as tables of cells."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tour_pyserini.evaluation.against import Against
from tour_pyserini.evaluation.by_split import SplitRow
from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.significance import TITLES


class Table(NamedTuple):
    """Cells, the head first; how many columns are words rather than numbers; and what is above the table."""

    cells: Sequence[Sequence[str]]
    words: int = 1
    title: str = ""


def means_table(rows: Sequence[Row]) -> Table:
    """Run, judged queries with hits if any run misses some, measures to four digits, labels and updates per query."""
    head = ["run", "answered", *rows[0].means, "labels/query", "updates/query"]
    cells = [head, *([row.name, str(row.answered.sum()), *_numbers(row.means), *_costs(row)] for row in rows)]
    if all(row.answered.all() for row in rows):
        cells = [[line[0], *line[2:]] for line in cells]
    return Table(cells)


def against_table(comparisons: Sequence[Against], baseline: str, *, test: str, alpha: float) -> Table:
    """Run, measure, difference, outcomes by query, p, Holm's p, and a star where that is at most alpha."""
    count = f"{len(comparisons)} comparison{'s' if len(comparisons) > 1 else ''}"
    title = f"Against {baseline}: {TITLES[test]}, Holm's correction over {count}; * significant at {alpha:g}"
    head = ["run", "measure", "difference", "wins", "ties", "losses", "p", "p (Holm)", "significant"]
    body = [
        [
            *(one.run, one.measure, f"{one.difference:+.4f}", *map(str, one.outcomes)),
            *(_chance(one.p), _chance(one.adjusted), "*" if one.adjusted <= alpha else ""),
        ]
        for one in comparisons
    ]
    return Table([head, *body], words=2, title=title)


def split_table(rows: Sequence[SplitRow]) -> Table:
    """Split, run, judged queries of the split, measures to four digits."""
    head = ["split", "run", "queries", *rows[0].means]
    body = [[row.split, row.run, str(row.queries), *_numbers(row.means)] for row in rows]
    return Table([head, *body], words=2, title="By split")


def _numbers(means: Mapping[str, float]) -> list[str]:
    return ["-" if math.isnan(mean) else f"{mean:.4f}" for mean in means.values()]


def _chance(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"


def _costs(row: Row) -> list[str]:
    if row.costs is None:
        return ["-", "-"]
    each = max(row.costs.queries, 1)
    return [
        f"{row.costs.pairs / each:.1f}",
        f"{row.costs.updates / each:.2f}",
    ]
