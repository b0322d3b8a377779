"""What a measurement says: a table, a picture, and how to read them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tour_pyserini.evaluation.tables import Table


class Bars(NamedTuple):
    """Ratios by contender, and the one to reach."""

    unit: str
    values: Mapping[str, float]
    target: float | None = None


class Lines(NamedTuple):
    """Series of (x, y), both on a logarithmic scale."""

    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]


class Report(NamedTuple):
    """One measurement."""

    name: str
    title: str
    table: Table
    note: str
    panels: Sequence[Bars | Lines] = ()
