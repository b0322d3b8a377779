"""What was measured, as tables: per cell, means over collections, splits and re-rankers."""

from collections.abc import Iterator, Mapping, Sequence

from tour_pyserini.data.splits import read_splits
from tour_pyserini.data.topics import read_topics
from tour_pyserini.evaluation.comparison import by_split
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.tables import Table, split_table
from tour_pyserini.experiments.definition import Cell, Experiment, TableOf, expanded
from tour_pyserini.experiments.figures import Cost
from tour_pyserini.experiments.judgements import is_file
from tour_pyserini.experiments.locations import Places
from tour_pyserini.experiments.measuring import Measures, Rows
from tour_pyserini.experiments.table_lines import Line, number, seconds_of, table_of, title_of, titles_of


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


def cell_table(
    experiment: Experiment, wanted: TableOf, cell: Cell, rows: Mapping[str, MeasuredRun], seconds: Cost
) -> Table:
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


def mean_tables(
    experiment: Experiment, wanted: TableOf, shown: Mapping[Cell, Mapping[str, MeasuredRun]]
) -> Iterator[Table]:
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


def _mean_line(experiment: Experiment, name: str, rows: Sequence[MeasuredRun]) -> list[str]:
    means = [sum(row.means[measure] for row in rows) / len(rows) for measure in experiment.measures]
    each = [row.costs.pairs / max(row.costs.queries, 1) for row in rows if row.costs is not None]
    mean_labels = f"{sum(each) / len(each):.1f}" if len(each) == len(rows) else "-"
    return [experiment.conditions[name].title, *map(number, means), mean_labels]


def _is_worth_showing(wanted: TableOf, measured: Mapping[str, MeasuredRun]) -> bool:
    """Whether a cell has several of the table's conditions, and something to compare them with."""
    compared = not wanted.baselines or any(name in measured for name in wanted.baselines)
    return compared and len(measured) >= min(2, len(wanted.conditions))


def _only(rows: Mapping[str, MeasuredRun], names: Sequence[str]) -> dict[str, MeasuredRun]:
    return {name: rows[name] for name in names if name in rows}


def split_tables(experiment: Experiment, rows: Rows, places: Places, how: Measures) -> Iterator[Table]:
    """One table for each cell whose collection has splits on this machine: every condition on every split."""
    for cell, measured in rows.items():
        collection, own = experiment.collections[cell.collection], how[cell.collection]
        if own is None or collection.splits is None or not is_file(collection.splits, places):
            continue
        order = [str(qid) for qid in read_topics(expanded(collection.topics, places.variables)).topics]
        path = expanded(collection.splits, places.variables)
        scorer = own.with_answers or own.scorer
        splits = read_splits(path, judged=scorer.queries, topics=order)
        named = [row._replace(name=experiment.conditions[name].title) for name, row in measured.items()]
        table = split_table(by_split(scorer, named, splits))
        yield table._replace(title=f"{table.title}: {title_of(experiment, cell)}")


def reranker_tables(experiment: Experiment, wanted: TableOf, rows: Rows, seconds: Cost) -> Iterator[Table]:
    """Re-rankers by measures as `cell_table` has conditions, one table for each of the conditions and other parts."""
    for condition in wanted.conditions:
        groups: dict[tuple[str, ...], dict[str, Line]] = {}
        for cell, measured in rows.items():
            if cell.reranker in wanted.rerankers and condition in measured:
                row = measured[condition]._replace(name=cell.reranker)
                line = Line(experiment.rerankers[cell.reranker].title, row, seconds_of(cell, row, seconds))
                groups.setdefault(cell[:3], {})[cell.reranker] = line
        for parts, found in groups.items():
            lines = {name: found[name] for name in wanted.rerankers if name in found}
            published = {name: experiment.paper.get(".".join([*parts, name]), {}).get(condition, {}) for name in lines}
            where = ", ".join([experiment.conditions[condition].title, *titles_of(experiment, parts)])
            baselines = [name for name in wanted.rerankers[:1] if name in lines and len(lines) > 1]
            yield table_of(
                experiment.measures,
                lines,
                baselines,
                published if any(published.values()) else {},
                head="re-ranker",
                title=f"{wanted.title}: {where}",
            )
