"""Tables of measured runs: one per setup, means over collections, re-rankers side by side, and splits.

Means stand in one table, and the comparisons with each baseline in one of their own: that with the first baseline is
printed, and a file has all of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.data.judgements import read_splits
from tour_pyserini.data.topics import read_topics
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import BaselineComparison, compare_with_baseline, gains, pooled_gain
from tour_pyserini.evaluation.tables import FORMATS, Table, as_text, split_table
from tour_pyserini.experiments.definition import Experiment, Setup, TableDefinition
from tour_pyserini.experiments.latency import Cost, seconds_cost
from tour_pyserini.experiments.measuring import Results, Scorers
from tour_pyserini.experiments.planning import Locations
from tour_pyserini.support.files import atomic_write

ALPHA = 0.05  # level of significance
WIDTH = 100  # characters of a line of text

LABELS = "labels/query: passages that the re-ranker scored for a query."
SECONDS = "seconds/query: what a query takes without a score cache."
PAPER = "(paper): published."
COMPARISON = (
    "A cell: difference, queries won/lost, and p of the paired randomisation test after Holm's correction over all "
    f"comparisons with the baseline; * if it is at most {ALPHA:g}."
)
POOLED = (
    "A cell: mean difference, its 95 % confidence interval by the bootstrap, and p of the paired randomisation test; "
    "each collection counts the same."
)


class ReportTable(NamedTuple):
    """A table, and whether it is printed; the others are in the files of the report only."""

    table: Table
    printed: bool = True


def report_tables(
    experiment: Experiment, results: Results, locations: Locations, scorers: Scorers
) -> list[ReportTable]:
    """All tables of an experiment."""
    own = tables(experiment, results, seconds_cost(results, locations))
    return [*own, *map(ReportTable, split_tables(experiment, results, locations, scorers))]


def printed_tables(tables: Sequence[ReportTable]) -> str:
    """The tables that are printed, in lines of at most 100 characters; a legend stands below its first table."""
    seen, parts = {""}, []
    for table, printed in tables:
        if printed:
            parts.append(as_text(table._replace(legend="") if table.legend in seen else table, width=WIDTH))
            seen.add(table.legend)
    return "\n\n".join(parts) + "\n"


def write_tables(tables: Sequence[ReportTable], folder: Path) -> Iterator[Path]:
    """Write all tables as text, Markdown and LaTeX."""
    for name, ending in {"text": "txt", "markdown": "md", "latex": "tex"}.items():
        path = folder / f"tables.{ending}"
        with atomic_write(path) as file:
            file.write("\n\n".join(FORMATS[name](table) for table, _ in tables) + "\n")
        yield path


def tables(experiment: Experiment, results: Results, seconds: Cost) -> Iterator[ReportTable]:
    """The tables that the file defines; if it defines none, one table of all conditions for each setup.

    A table has one part for each setup, followed by the means over collections.
    """
    everything = {"": TableDefinition(title=experiment.title, conditions=tuple(experiment.conditions))}
    for definition in (experiment.tables or everything).values():
        if definition.rerankers:
            yield from _reranker_tables(experiment, definition, results, seconds)
            continue
        shown = {
            setup: {name: runs[name] for name in definition.conditions if name in runs}
            for setup, runs in results.items()
        }
        shown = {setup: runs for setup, runs in shown.items() if _is_worth_showing(definition, runs)}
        for setup, runs in shown.items():
            yield from _setup_tables(experiment, definition, setup, runs, seconds)
        yield from _mean_tables(experiment, definition, shown)


def split_tables(experiment: Experiment, results: Results, locations: Locations, scorers: Scorers) -> Iterator[Table]:
    """One table for each setup whose collection has a file of splits: every condition on every split."""
    for setup, runs in results.items():
        collection, own = experiment.collections[setup.collection], scorers[setup.collection]
        if own is None or collection.splits is None or not locations.is_file(collection.splits):
            continue
        scorer = own.with_answers or own.scorer
        topics = read_topics(locations.expanded(collection.topics), only=set(scorer.queries))
        order = [str(qid) for qid in topics.topics]
        splits = read_splits(locations.expanded(collection.splits), judged=scorer.queries, topics=order)
        named = [run._replace(name=experiment.conditions[name].title) for name, run in runs.items()]
        table = split_table(scorer, named, splits)
        yield table._replace(title=f"{table.title}: {setup_title(experiment, setup)}")


def setup_title(experiment: Experiment, setup: Setup) -> str:
    """Collection, encoder and index, and the re-ranker if there are several."""
    reranker = [experiment.rerankers[setup.reranker].title] if len(experiment.rerankers) > 1 else []
    return ", ".join([*_part_titles(experiment, setup[:3]), *reranker])


def _part_titles(experiment: Experiment, names: Sequence[str]) -> list[str]:
    """The titles of a collection, an encoder and a kind of index, from their names."""
    collection, encoder, index_kind = names
    return [collection, experiment.encoders[encoder].title, experiment.indexes[index_kind].title]


def _is_worth_showing(definition: TableDefinition, runs: Mapping[str, MeasuredRun]) -> bool:
    """Whether a setup has several of the table's conditions, and a baseline if the table has baselines."""
    has_baseline = not definition.baselines or any(name in runs for name in definition.baselines)
    return has_baseline and len(runs) >= min(2, len(definition.conditions))


class _TableLine(NamedTuple):
    """A line of a table: its title, what was measured, and seconds per query, if they are known."""

    title: str
    run: MeasuredRun
    seconds: float | None


def _setup_tables(
    experiment: Experiment, definition: TableDefinition, setup: Setup, runs: Mapping[str, MeasuredRun], seconds: Cost
) -> Iterator[ReportTable]:
    """A line for each condition."""
    lines = {
        name: _TableLine(experiment.conditions[name].title, run, seconds(setup, run)) for name, run in runs.items()
    }
    published = experiment.paper.get(setup.name, {})
    title = f"{definition.title}: {setup_title(experiment, setup)}"
    yield _means_table(experiment, lines, published, first_column="condition", title=title)
    yield from _comparison_tables(experiment, lines, definition.baselines, first_column="condition", title=title)


def _reranker_tables(
    experiment: Experiment, definition: TableDefinition, results: Results, seconds: Cost
) -> Iterator[ReportTable]:
    """A line for each re-ranker; one table for each condition, collection, encoder and index."""
    for condition in definition.conditions:
        groups: dict[tuple[str, ...], dict[str, _TableLine]] = {}
        for setup, runs in results.items():
            if setup.reranker in definition.rerankers and condition in runs:
                run = runs[condition]._replace(name=setup.reranker)
                title = experiment.rerankers[setup.reranker].title
                groups.setdefault(setup[:3], {})[setup.reranker] = _TableLine(title, run, seconds(setup, run))
        for parts, group in groups.items():
            lines = {name: group[name] for name in definition.rerankers if name in group}
            published = {name: experiment.paper.get(".".join([*parts, name]), {}).get(condition, {}) for name in lines}
            where = ", ".join([experiment.conditions[condition].title, *_part_titles(experiment, parts)])
            title = f"{definition.title}: {where}"
            yield _means_table(experiment, lines, published, first_column="re-ranker", title=title)
            baselines = definition.rerankers[:1]
            yield from _comparison_tables(experiment, lines, baselines, first_column="re-ranker", title=title)


def _means_table(
    experiment: Experiment,
    lines: Mapping[str, _TableLine],
    published: Mapping[str, Mapping[str, float]],
    *,
    first_column: str,
    title: str,
) -> ReportTable:
    """Measures, costs, and published scores if there are any."""
    timed, has_paper = any(line.seconds is not None for line in lines.values()), any(published.values())
    columns = [first_column, *experiment.measures, "labels/query"] + ["seconds/query"] * timed
    columns += [f"{measure} (paper)" for measure in experiment.measures] * has_paper
    body = []
    for name, line in lines.items():
        fields = [line.title, *map(_number, line.run.means.values()), _number(_labels(line.run), 1)]
        fields += [_number(line.seconds, 3)] * timed
        fields += [_number(published.get(name, {}).get(measure)) for measure in experiment.measures] * has_paper
        body.append(fields)
    legend = " ".join([LABELS, *[SECONDS] * timed, *[PAPER] * has_paper])
    return ReportTable(Table([columns, *body], title=title, legend=legend))


def _comparison_tables(
    experiment: Experiment, lines: Mapping[str, _TableLine], baselines: Sequence[str], *, first_column: str, title: str
) -> Iterator[ReportTable]:
    """Paired tests against each baseline that has a line."""
    present = [name for name in baselines if name in lines and len(lines) > 1]
    for baseline in present:
        others = [line.run for name, line in lines.items() if name != baseline]
        found = {(one.run, one.measure): one for one in compare_with_baseline(lines[baseline].run, others)}
        body = [
            [line.title, *(_comparison(found[name, measure]) for measure in experiment.measures)]
            for name, line in lines.items()
            if name != baseline
        ]
        against = f"{title}, against {lines[baseline].title} ({len(found)} comparisons)"
        table = Table([[first_column, *experiment.measures], *body], title=against, legend=COMPARISON)
        yield ReportTable(table, printed=baseline == present[0])


def _mean_tables(experiment: Experiment, definition: TableDefinition, shown: Results) -> Iterator[ReportTable]:
    """Means over collections for each encoder, index and re-ranker, of the conditions that every collection has."""
    groups: dict[tuple[str, ...], list[Setup]] = {}
    for setup in shown:
        groups.setdefault(setup[1:4], []).append(setup)
    for members in groups.values():
        common = [name for name in definition.conditions if all(name in shown[setup] for setup in members)]
        if len(members) < 2 or not common:
            continue
        where = setup_title(experiment, members[0]).split(", ", 1)[1]
        title = f"{definition.title}: mean of {', '.join(setup.collection for setup in members)}, {where}"
        rows = {name: [shown[setup][name] for setup in members] for name in common}
        body = [[experiment.conditions[name].title, *_mean_line(experiment, runs)] for name, runs in rows.items()]
        head = ["condition", *experiment.measures]
        yield ReportTable(Table([[*head, "labels/query"], *body], title=title, legend=LABELS))
        present = [name for name in definition.baselines if name in common]
        for baseline in present:
            body = [
                [experiment.conditions[name].title, *(_pooled(one, runs, rows[baseline]) for one in head[1:])]
                for name, runs in rows.items()
                if name != baseline
            ]
            against = f"{title}, against {experiment.conditions[baseline].title}"
            table = Table([head, *body], title=against, legend=POOLED)
            yield ReportTable(table, printed=baseline == present[0])


def _mean_line(experiment: Experiment, runs: Sequence[MeasuredRun]) -> list[str]:
    means = [sum(run.means[measure] for run in runs) / len(runs) for measure in experiment.measures]
    labels = [count for run in runs if (count := _labels(run)) is not None]
    mean_labels = sum(labels) / len(labels) if len(labels) == len(runs) else None
    return [*map(_number, means), _number(mean_labels, 1)]


def _pooled(measure: str, runs: Sequence[MeasuredRun], baseline: Sequence[MeasuredRun]) -> str:
    pairs = zip(runs, baseline, strict=True)
    gain = pooled_gain([gains(run.values[measure], base.values[measure]) for run, base in pairs])
    return f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}] {_p_value(gain.p)}"


def _comparison(result: BaselineComparison) -> str:
    star = " *" if result.adjusted <= ALPHA else ""
    won_lost = f"{result.outcomes.wins}/{result.outcomes.losses}"
    return f"{result.difference:+.4f} {won_lost} {_p_value(result.adjusted)}{star}"


def _p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def _labels(run: MeasuredRun) -> float | None:
    return None if run.costs is None else run.costs.pairs / max(run.costs.queries, 1)


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"
