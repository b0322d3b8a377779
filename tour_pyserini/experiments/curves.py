"""What figures show: points of sweeps, and conditions that stand alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tour_pyserini.costs import Costs
from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.experiments.cells import Cell
from tour_pyserini.experiments.definition import Experiment, FigureOf
from tour_pyserini.experiments.measuring import Rows


class Curve(NamedTuple):
    """Points (x, y) by x; `dashed` where labels are not used again; a curve of one point stands alone."""

    title: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


Cost = Callable[[Cell, Row, int], float | None]
"""Labels or seconds per query of a run that pays for so many labels, where they are known."""


def labels_per_query(_: Cell, row: Row, labels: int) -> float:
    """Labels per query."""
    return labels / max(_costs(row).queries, 1)


def panels(experiment: Experiment, figure: FigureOf, rows: Rows, cost: Cost) -> Mapping[Cell, Sequence[Curve]]:
    """The curves of each cell that has any."""
    shown = {cell: list(_curves(experiment, figure, cell, measured, cost)) for cell, measured in rows.items()}
    return {cell: curves for cell, curves in shown.items() if any(len(curve.points) > 1 for curve in curves)}


def _curves(
    experiment: Experiment, figure: FigureOf, cell: Cell, rows: Mapping[str, Row], cost: Cost
) -> Iterator[Curve]:
    costly = {name: row for name, row in rows.items() if row.costs is not None and figure.measure in row.means}
    for curve in figure.curves:
        swept = {n: row for n, row in costly.items() if experiment.conditions[n].sweep == curve}
        for again in (True, False) if figure.kind == "efficiency" else (True,):
            points = [_point(experiment, figure, cell, name, row, cost, again) for name, row in swept.items()]
            known = sorted(point for point in points if point is not None)
            yield Curve(experiment.sweeps[curve].title + ("" if again else ", no label used again"), known, not again)
    for name in figure.lines:
        if name in costly and (point := _point(experiment, figure, cell, name, costly[name], cost, True)):
            yield Curve(experiment.conditions[name].title, [point])


def _point(
    experiment: Experiment, figure: FigureOf, cell: Cell, name: str, row: Row, cost: Cost, again: bool
) -> tuple[float, float] | None:
    costs, value = _costs(row), experiment.conditions[name].value
    paid = cost(cell, row, costs.pairs + (0 if again else costs.reused))
    if figure.kind == "sweep":
        return (0.0 if value is None else value, row.means[figure.measure])
    if paid is None:
        return None
    return (value or 0.0, paid) if figure.kind == "efficiency" else (paid, row.means[figure.measure])


def _costs(row: Row) -> Costs:
    assert row.costs is not None
    return row.costs
