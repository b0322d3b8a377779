"""What was measured, as tables: one per cell, and means over collections."""

from collections.abc import Iterator, Mapping, Sequence

from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.table import Table
from tour_pyserini.experiments.cells import Cell
from tour_pyserini.experiments.curves import Cost
from tour_pyserini.experiments.definition import Experiment, TableOf
from tour_pyserini.experiments.measuring import Rows
from tour_pyserini.experiments.reranker_tables import reranker_tables
from tour_pyserini.experiments.table_lines import Line, number, seconds_of, table_of, title_of


def all_tables(experiment: Experiment, rows: Rows, seconds: Cost) -> Iterator[Table]:
    """For each table of the file, one per cell and then the means; a file without tables has one of everything."""
    everything = {"": TableOf(experiment.title, tuple(experiment.conditions), ())}
    for wanted in (experiment.tables or everything).values():
        if wanted.rerankers:
            yield from reranker_tables(experiment, wanted, rows, seconds)
            continue
        shown = {cell: _only(measured, wanted.conditions) for cell, measured in rows.items()}
        shown = {cell: measured for cell, measured in shown.items() if _is_worth_showing(wanted, measured)}
        for cell, measured in shown.items():
            yield cell_table(experiment, wanted, cell, measured, seconds)
        yield from mean_tables(experiment, wanted, shown)


def cell_table(experiment: Experiment, wanted: TableOf, cell: Cell, rows: Mapping[str, Row], seconds: Cost) -> Table:
    """Conditions by measures, costs, published figures where there are some, and paired tests against the baselines.

    A comparison reads: difference, queries won and lost, Holm's p, a star where that is at most 0.05.
    """
    lines = {
        name: Line(experiment.conditions[name].title, row, seconds_of(cell, row, seconds)) for name, row in rows.items()
    }
    baselines = [name for name in wanted.baselines if name in rows and len(rows) > 1]
    published = experiment.paper.get(cell.name, {})
    title = f"{wanted.title}: {title_of(experiment, cell)}"
    return table_of(experiment.measures, lines, baselines, published, head="condition", title=title)


def mean_tables(experiment: Experiment, wanted: TableOf, shown: Mapping[Cell, Mapping[str, Row]]) -> Iterator[Table]:
    """Means over collections for each encoder, index and re-ranker; only conditions that every collection has."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in shown:
        groups.setdefault(cell[1:4], []).append(cell)
    for members in groups.values():
        if len(members) < 2:
            continue
        common = [name for name in wanted.conditions if all(name in shown[cell] for cell in members)]
        body = [_mean_line(experiment, name, [shown[cell][name] for cell in members]) for name in common]
        where = title_of(experiment, members[0]).split(", ", 1)[1]
        title = f"{wanted.title}: mean of {', '.join(cell.collection for cell in members)}, {where}"
        if body:
            yield Table([["condition", *experiment.measures, "labels/query"], *body], title=title)


def _mean_line(experiment: Experiment, name: str, rows: Sequence[Row]) -> list[str]:
    means = [sum(row.means[measure] for row in rows) / len(rows) for measure in experiment.measures]
    each = [row.costs.pairs / max(row.costs.queries, 1) for row in rows if row.costs is not None]
    mean_labels = f"{sum(each) / len(each):.1f}" if len(each) == len(rows) else "-"
    return [experiment.conditions[name].title, *map(number, means), mean_labels]


def _is_worth_showing(wanted: TableOf, measured: Mapping[str, Row]) -> bool:
    """Whether a cell has several of the table's conditions, and something to compare them with."""
    compared = not wanted.baselines or any(name in measured for name in wanted.baselines)
    return compared and len(measured) >= min(2, len(wanted.conditions))


def _only(rows: Mapping[str, Row], names: Sequence[str]) -> dict[str, Row]:
    return {name: rows[name] for name in names if name in rows}
