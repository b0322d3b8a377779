"""Lines of a table: what was measured, what it cost, and how it compares."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tour_pyserini.evaluation.comparison import BaselineComparison, compare_with_baseline
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.experiments.definition import Cell, Experiment
from tour_pyserini.experiments.figures import Cost

ALPHA = 0.05


class Line(NamedTuple):
    """A line of a table: what it is called, what was measured, and seconds per query."""

    title: str
    row: MeasuredRun
    seconds: str


def table_of(
    measures: Sequence[str],
    lines: Mapping[str, Line],
    baselines: Sequence[str],
    published: Mapping[str, Mapping[str, float]],
    *,
    head: str,
    title: str,
) -> Table:
    """A table of the lines: measures, costs, published figures where there are some, and paired tests.

    Args:
        measures: their names.
        lines: by name.
        baselines: names of lines that the others are tested against.
        published: by line and measure.
        head: what stands above the lines' titles.
        title: of the table.
    """
    compared = {name: _against(name, {key: line.row for key, line in lines.items()}) for name in baselines}
    timed = {line.seconds for line in lines.values()} != {"-"}
    columns = [head, *measures, "labels/query"] + ["seconds/query"] * timed
    columns += [f"{measure} (paper)" for measure in measures] if published else []
    columns += [f"{measure} vs {name}" for name in baselines for measure in measures]
    body = []
    for name, line in lines.items():
        cells = [line.title, *(number(value) for value in line.row.means.values())]
        cells += [labels(line.row)] + [line.seconds] * timed
        if published:
            cells += [number(published.get(name, {}).get(measure)) for measure in measures]
        cells += [_comparison(compared[base].get((name, measure))) for base in baselines for measure in measures]
        body.append(cells)
    family = len(measures) * (len(lines) - 1)
    tests = f"; randomisation tests with Holm's correction over {family} comparisons per baseline, * at {ALPHA:g}"
    return Table([columns, *body], title=f"{title}{tests if baselines else ''}")


def labels(row: MeasuredRun) -> str:
    """Labels per query to one digit."""
    return "-" if row.costs is None else f"{row.costs.pairs / max(row.costs.queries, 1):.1f}"


def _against(baseline: str, rows: Mapping[str, MeasuredRun]) -> dict[tuple[str, str], BaselineComparison]:
    others = [row for name, row in rows.items() if name != baseline]
    return {(one.run, one.measure): one for one in compare_with_baseline(rows[baseline], others)}


def _comparison(one: BaselineComparison | None) -> str:
    if one is None:
        return ""
    chance = f"{one.adjusted:.3f}" if one.adjusted >= 0.001 else "<0.001"
    star = " *" if one.adjusted <= ALPHA else ""
    return f"{one.difference:+.4f} {one.outcomes.wins}/{one.outcomes.losses} {chance}{star}"


def seconds_of(cell: Cell, row: MeasuredRun, seconds: Cost) -> str:
    """Seconds per query to three digits."""
    return number(None if row.costs is None else seconds(cell, row, row.costs.pairs), 3)


def number(value: float | None, digits: int = 4) -> str:
    """A number to so many digits, or a dash."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def title_of(experiment: Experiment, cell: Cell) -> str:
    """Collection, encoder and index, and the re-ranker where there are several."""
    several = len(experiment.rerankers) > 1
    reranker = [experiment.rerankers[cell.reranker].title] if several else []
    return ", ".join([*titles_of(experiment, cell[:3]), *reranker])


def titles_of(experiment: Experiment, parts: Sequence[str]) -> list[str]:
    """The titles of a collection, an encoder and a kind of index by their names."""
    collection, encoder, index = parts
    return [collection, experiment.encoders[encoder].title, experiment.indexes[index].title]
