"""Tables as text and as Markdown."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tour_pyserini.evaluation.comparison import Row

Cells = Sequence[Sequence[str]]


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """The comparison as cells, the head first: run, measures to four digits, labels and updates per query."""
    head = ["run", *rows[0].means, "labels/query", "updates/query"]
    return [head, *([row.name, *(f"{mean:.4f}" for mean in row.means.values()), *_costs(row)] for row in rows)]


def as_text(table: Cells) -> str:
    """Columns aligned by blanks."""
    first, *others = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return "\n".join("  ".join([line[0].ljust(first), *map(str.rjust, line[1:], others)]) for line in table)


def as_markdown(table: Cells) -> str:
    """A Markdown table."""
    rule = ["---", *["---:"] * (len(table[0]) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [table[0], rule, *table[1:]])


FORMATS: Mapping[str, Callable[[Cells], str]] = MappingProxyType({"text": as_text, "markdown": as_markdown})


def _costs(row: Row) -> list[str]:
    if row.costs is None:
        return ["-", "-"]
    each = max(row.costs.queries, 1)
    return [
        f"{row.costs.pairs / each:.1f}",
        f"{row.costs.updates / each:.2f}",
    ]
