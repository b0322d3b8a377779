"""What was measured, as tables that show re-rankers together."""

from collections.abc import Iterator

from tour_pyserini.evaluation.table import Table
from tour_pyserini.experiments.curves import Cost
from tour_pyserini.experiments.definition import Experiment, TableOf
from tour_pyserini.experiments.measuring import Rows
from tour_pyserini.experiments.table_lines import Line, seconds_of, table_of, titles_of


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
