"""Tables of measured runs: one per setup, means over collections, re-rankers side by side, and splits."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tour_pyserini.data.splits import read_splits
from tour_pyserini.data.topics import read_topics
from tour_pyserini.evaluation.comparison import BaselineComparison, by_split, compare_with_baseline
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import gains, pooled_gain
from tour_pyserini.evaluation.tables import Table, split_table
from tour_pyserini.experiments.definition import Experiment, Setup, TableDefinition
from tour_pyserini.experiments.figures import Cost
from tour_pyserini.experiments.locations import Locations
from tour_pyserini.experiments.measuring import Results, Scorers

ALPHA = 0.05  # level of significance


def tables(experiment: Experiment, results: Results, seconds: Cost) -> Iterator[Table]:
    """The tables that the file defines; if it defines none, one table of all conditions for each setup.

    A table has one part for each setup, followed by the means over collections.
    """
    everything = {"": TableDefinition(experiment.title, tuple(experiment.conditions), ())}
    for definition in (experiment.tables or everything).values():
        if definition.rerankers:
            yield from _reranker_tables(experiment, definition, results, seconds)
            continue
        shown = {setup: _only(runs, definition.conditions) for setup, runs in results.items()}
        shown = {setup: runs for setup, runs in shown.items() if _is_worth_showing(definition, runs)}
        for setup, runs in shown.items():
            yield _setup_table(experiment, definition, setup, runs, seconds)
        yield from _mean_tables(experiment, definition, shown)


def split_tables(experiment: Experiment, results: Results, locations: Locations, scorers: Scorers) -> Iterator[Table]:
    """One table for each setup whose collection has a file of splits: every condition on every split."""
    for setup, runs in results.items():
        collection, own = experiment.collections[setup.collection], scorers[setup.collection]
        if own is None or collection.splits is None or not locations.is_file(collection.splits):
            continue
        order = [str(qid) for qid in read_topics(locations.expanded(collection.topics)).topics]
        scorer = own.with_answers or own.scorer
        splits = read_splits(locations.expanded(collection.splits), judged=scorer.queries, topics=order)
        named = [run._replace(name=experiment.conditions[name].title) for name, run in runs.items()]
        table = split_table(by_split(scorer, named, splits))
        yield table._replace(title=f"{table.title}: {setup_title(experiment, setup)}")


def setup_title(experiment: Experiment, setup: Setup) -> str:
    """Collection, encoder and index, and the re-ranker if there are several."""
    several = len(experiment.rerankers) > 1
    reranker = [experiment.rerankers[setup.reranker].title] if several else []
    return ", ".join([*_part_titles(experiment, setup[:3]), *reranker])


def _part_titles(experiment: Experiment, names: Sequence[str]) -> list[str]:
    """The titles of a collection, an encoder and a kind of index, from their names."""
    collection, encoder, index_kind = names
    return [collection, experiment.encoders[encoder].title, experiment.indexes[index_kind].title]


def _only(runs: Mapping[str, MeasuredRun], names: Sequence[str]) -> dict[str, MeasuredRun]:
    return {name: runs[name] for name in names if name in runs}


def _is_worth_showing(definition: TableDefinition, runs: Mapping[str, MeasuredRun]) -> bool:
    """Whether a setup has several of the table's conditions, and a baseline if the table has baselines."""
    has_baseline = not definition.baselines or any(name in runs for name in definition.baselines)
    return has_baseline and len(runs) >= min(2, len(definition.conditions))


class _TableLine(NamedTuple):
    """A line of a table: its title, what was measured, and seconds per query as text."""

    title: str
    run: MeasuredRun
    seconds: str


def _setup_table(
    experiment: Experiment, definition: TableDefinition, setup: Setup, runs: Mapping[str, MeasuredRun], seconds: Cost
) -> Table:
    """A line for each condition."""
    lines = {
        name: _TableLine(experiment.conditions[name].title, run, _seconds(setup, run, seconds))
        for name, run in runs.items()
    }
    baselines = [name for name in definition.baselines if name in runs and len(runs) > 1]
    published = experiment.paper.get(setup.name, {})
    title = f"{definition.title}: {setup_title(experiment, setup)}"
    return _table(experiment.measures, lines, baselines, published, first_column="condition", title=title)


def _reranker_tables(
    experiment: Experiment, definition: TableDefinition, results: Results, seconds: Cost
) -> Iterator[Table]:
    """A line for each re-ranker; one table for each condition, collection, encoder and index."""
    for condition in definition.conditions:
        groups: dict[tuple[str, ...], dict[str, _TableLine]] = {}
        for setup, runs in results.items():
            if setup.reranker in definition.rerankers and condition in runs:
                run = runs[condition]._replace(name=setup.reranker)
                title = experiment.rerankers[setup.reranker].title
                groups.setdefault(setup[:3], {})[setup.reranker] = _TableLine(title, run, _seconds(setup, run, seconds))
        for parts, group in groups.items():
            lines = {name: group[name] for name in definition.rerankers if name in group}
            published = {name: experiment.paper.get(".".join([*parts, name]), {}).get(condition, {}) for name in lines}
            where = ", ".join([experiment.conditions[condition].title, *_part_titles(experiment, parts)])
            yield _table(
                experiment.measures,
                lines,
                [name for name in definition.rerankers[:1] if name in lines and len(lines) > 1],
                published if any(published.values()) else {},
                first_column="re-ranker",
                title=f"{definition.title}: {where}",
            )


def _mean_tables(experiment: Experiment, definition: TableDefinition, shown: Results) -> Iterator[Table]:
    """Means over collections for each encoder, index and re-ranker, of the conditions that every collection has.

    A comparison with a baseline has: mean difference, its 95 % confidence interval, and p; see `pooled_gain`.
    """
    groups: dict[tuple[str, ...], list[Setup]] = {}
    for setup in shown:
        groups.setdefault(setup[1:4], []).append(setup)
    for members in groups.values():
        if len(members) < 2:
            continue
        common = [name for name in definition.conditions if all(name in shown[setup] for setup in members)]
        baselines = [name for name in definition.baselines if name in common]
        columns = ["condition", *experiment.measures, "labels/query"]
        columns += [f"{measure} vs {name}" for name in baselines for measure in experiment.measures]
        body = []
        for name in common:
            runs = [shown[setup][name] for setup in members]
            fields = _mean_line(experiment, name, runs)
            for base in baselines:
                pairs = [(run, shown[setup][base]) for run, setup in zip(runs, members, strict=True)]
                fields += ["" if name == base else _pooled(measure, pairs) for measure in experiment.measures]
            body.append(fields)
        where = setup_title(experiment, members[0]).split(", ", 1)[1]
        title = f"{definition.title}: mean of {', '.join(setup.collection for setup in members)}, {where}"
        if body:
            yield Table([columns, *body], title=title)


def _mean_line(experiment: Experiment, name: str, runs: Sequence[MeasuredRun]) -> list[str]:
    means = [sum(run.means[measure] for run in runs) / len(runs) for measure in experiment.measures]
    labels = [run.costs.pairs / max(run.costs.queries, 1) for run in runs if run.costs is not None]
    mean_labels = f"{sum(labels) / len(labels):.1f}" if len(labels) == len(runs) else "-"
    return [experiment.conditions[name].title, *map(_number, means), mean_labels]


def _pooled(measure: str, pairs: Sequence[tuple[MeasuredRun, MeasuredRun]]) -> str:
    gain = pooled_gain([gains(run.values[measure], base.values[measure]) for run, base in pairs])
    p = f"{gain.p:.3f}" if gain.p >= 0.001 else "<0.001"
    return f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}] {p}"


def _table(
    measures: Sequence[str],
    lines: Mapping[str, _TableLine],
    baselines: Sequence[str],
    published: Mapping[str, Mapping[str, float]],
    *,
    first_column: str,
    title: str,
) -> Table:
    """Measures, costs, published scores if there are any, and paired tests against each baseline.

    A comparison has: difference, queries won/lost, Holm's p, and a star if p is at most ALPHA.

    Args:
        measures: names of measures.
        lines: the lines by name.
        baselines: names of the lines that the others are tested against.
        published: published scores by line and measure.
        first_column: the name of the first column.
        title: the title of the table.
    """
    compared = {name: _comparisons(name, {key: line.run for key, line in lines.items()}) for name in baselines}
    timed = {line.seconds for line in lines.values()} != {"-"}
    columns = [first_column, *measures, "labels/query"] + ["seconds/query"] * timed
    columns += [f"{measure} (paper)" for measure in measures] if published else []
    columns += [f"{measure} vs {name}" for name in baselines for measure in measures]
    body = []
    for name, line in lines.items():
        fields = [line.title, *(_number(value) for value in line.run.means.values())]
        fields += [_labels(line.run)] + [line.seconds] * timed
        if published:
            fields += [_number(published.get(name, {}).get(measure)) for measure in measures]
        fields += [_comparison(compared[base].get((name, measure))) for base in baselines for measure in measures]
        body.append(fields)
    count = len(measures) * (len(lines) - 1)
    tests = f"; randomisation tests with Holm's correction over {count} comparisons per baseline, * at {ALPHA:g}"
    return Table([columns, *body], title=f"{title}{tests if baselines else ''}")


def _comparisons(baseline: str, runs: Mapping[str, MeasuredRun]) -> dict[tuple[str, str], BaselineComparison]:
    """The comparisons with a baseline, by run and measure."""
    others = [run for name, run in runs.items() if name != baseline]
    return {(result.run, result.measure): result for result in compare_with_baseline(runs[baseline], others)}


def _comparison(result: BaselineComparison | None) -> str:
    if result is None:
        return ""
    p = f"{result.adjusted:.3f}" if result.adjusted >= 0.001 else "<0.001"
    star = " *" if result.adjusted <= ALPHA else ""
    return f"{result.difference:+.4f} {result.outcomes.wins}/{result.outcomes.losses} {p}{star}"


def _labels(run: MeasuredRun) -> str:
    return "-" if run.costs is None else f"{run.costs.pairs / max(run.costs.queries, 1):.1f}"


def _seconds(setup: Setup, run: MeasuredRun, seconds: Cost) -> str:
    return _number(None if run.costs is None else seconds(setup, run, run.costs.pairs), 3)


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"
