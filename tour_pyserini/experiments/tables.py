"""What was measured, as tables: one per cell, and means over collections."""

import math
from collections.abc import Iterator, Mapping, Sequence

from tour_pyserini.evaluation.against import Against, against
from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.table import Table
from tour_pyserini.experiments.cells import Cell
from tour_pyserini.experiments.curves import Cost
from tour_pyserini.experiments.definition import Experiment, TableOf
from tour_pyserini.experiments.measuring import Rows

ALPHA = 0.05


def all_tables(experiment: Experiment, rows: Rows, seconds: Cost) -> Iterator[Table]:
    """For each table of the file, one per cell and then the means; a file without tables has one of everything."""
    everything = {"": TableOf(experiment.title, tuple(experiment.conditions), ())}
    for wanted in (experiment.tables or everything).values():
        shown = {cell: _only(measured, wanted.conditions) for cell, measured in rows.items()}
        shown = {cell: measured for cell, measured in shown.items() if len(measured) >= min(2, len(wanted.conditions))}
        for cell, measured in shown.items():
            yield cell_table(experiment, wanted, cell, measured, seconds)
        yield from mean_tables(experiment, wanted, shown)


def cell_table(experiment: Experiment, wanted: TableOf, cell: Cell, rows: Mapping[str, Row], seconds: Cost) -> Table:
    """Conditions by measures, costs, published figures where there are some, and paired tests against the baselines.

    A comparison reads: difference, queries won and lost, Holm's p, a star where that is at most 0.05.
    """
    published = experiment.paper.get(cell.name, {})
    baselines = [name for name in wanted.baselines if name in rows and len(rows) > 1]
    compared = {name: _against(name, rows) for name in baselines}
    measures = list(experiment.measures)
    times = [_seconds(cell, row, seconds) for row in rows.values()]
    timed = set(times) != {"-"}
    head = ["condition", *measures, "labels/query"] + ["seconds/query"] * timed
    head += [f"{measure} (paper)" for measure in measures] if published else []
    head += [f"{measure} vs {name}" for name in baselines for measure in measures]
    body = []
    for (name, row), time in zip(rows.items(), times, strict=True):
        line = [experiment.conditions[name].title, *(_number(value) for value in row.means.values())]
        line += [labels(row)] + [time] * timed
        if published:
            line += [_number(published.get(name, {}).get(measure)) for measure in measures]
        line += [_comparison(compared[base].get((name, measure))) for base in baselines for measure in measures]
        body.append(line)
    family = len(measures) * (len(rows) - 1)
    tests = f"; randomisation tests with Holm's correction over {family} comparisons per baseline, * at {ALPHA:g}"
    return Table([head, *body], title=f"{wanted.title}: {title_of(experiment, cell)}{tests if baselines else ''}")


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


def labels(row: Row) -> str:
    """Labels per query to one digit."""
    return "-" if row.costs is None else f"{row.costs.pairs / max(row.costs.queries, 1):.1f}"


def _mean_line(experiment: Experiment, name: str, rows: Sequence[Row]) -> list[str]:
    means = [sum(row.means[measure] for row in rows) / len(rows) for measure in experiment.measures]
    each = [row.costs.pairs / max(row.costs.queries, 1) for row in rows if row.costs is not None]
    mean_labels = f"{sum(each) / len(each):.1f}" if len(each) == len(rows) else "-"
    return [experiment.conditions[name].title, *map(_number, means), mean_labels]


def _only(rows: Mapping[str, Row], names: Sequence[str]) -> dict[str, Row]:
    return {name: rows[name] for name in names if name in rows}


def _against(baseline: str, rows: Mapping[str, Row]) -> dict[tuple[str, str], Against]:
    others = [row for name, row in rows.items() if name != baseline]
    return {(one.run, one.measure): one for one in against(rows[baseline], others)}


def _comparison(one: Against | None) -> str:
    if one is None:
        return ""
    chance = f"{one.adjusted:.3f}" if one.adjusted >= 0.001 else "<0.001"
    star = " *" if one.adjusted <= ALPHA else ""
    return f"{one.difference:+.4f} {one.outcomes.wins}/{one.outcomes.losses} {chance}{star}"


def _seconds(cell: Cell, row: Row, seconds: Cost) -> str:
    return _number(None if row.costs is None else seconds(cell, row, row.costs.pairs), 3)


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def title_of(experiment: Experiment, cell: Cell) -> str:
    """Collection, encoder and index, and the re-ranker where there are several."""
    several = len(experiment.rerankers) > 1
    reranker = [experiment.rerankers[cell.reranker].title] if several else []
    encoder, index = experiment.encoders[cell.encoder].title, experiment.indexes[cell.kind].title
    return ", ".join([cell.collection, encoder, index, *reranker])
