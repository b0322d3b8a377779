"""The report of an experiment: tables and figures of measured runs.

There are tables for each setup, means over collections, re-rankers side by side, and splits. Means stand in one
table, and the comparisons with each baseline in one of their own: that with the first baseline is printed, and a file
has all of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.judgements import read_splits
from tour_pyserini.data.topics import read_topics
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import BaselineComparison, compare_with_baseline, gains, pooled_gain
from tour_pyserini.evaluation.pictures import save_picture
from tour_pyserini.evaluation.tables import FORMATS, Table, as_text, split_table
from tour_pyserini.experiments.definition import Experiment, FigureDefinition, Setup, TableDefinition
from tour_pyserini.experiments.measuring import Results, Scorers
from tour_pyserini.experiments.planning import Locations
from tour_pyserini.support.files import atomic_write

ALPHA = 0.05  # level of significance
WIDTH = 100  # characters of a line of text

LABELS = "labels/query: passages that the re-ranker scored for a query."
PAPER = "(paper): published."
COMPARISON = (
    "A cell: difference, queries won/lost, and p of the paired randomisation test after Holm's correction over all "
    f"comparisons with the baseline; * if it is at most {ALPHA:g}."
)
POOLED = (
    "A cell: mean difference, its 95 % confidence interval by the bootstrap, and p of the paired randomisation test; "
    "each collection counts the same."
)


ReportTable = tuple[Table, bool]
"""A table, and whether it is printed; the others are in the files of the report only."""


def report_tables(
    experiment: Experiment, results: Results, locations: Locations, scorers: Scorers
) -> list[ReportTable]:
    """All tables of an experiment."""
    splits = ((table, True) for table in _split_tables(experiment, results, locations, scorers))
    return [*_tables(experiment, results), *splits]


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


def _tables(experiment: Experiment, results: Results) -> Iterator[ReportTable]:
    """The tables that the file defines; if it defines none, one table of all conditions for each setup.

    A table has one part for each setup, followed by the means over collections.
    """
    everything = {"": TableDefinition(title=experiment.title, conditions=tuple(experiment.conditions))}
    for definition in (experiment.tables or everything).values():
        if definition.rerankers:
            yield from _reranker_tables(experiment, definition, results)
            continue
        shown = {
            setup: {name: runs[name] for name in definition.conditions if name in runs}
            for setup, runs in results.items()
        }
        shown = {setup: runs for setup, runs in shown.items() if _is_worth_showing(definition, runs)}
        for setup, runs in shown.items():
            yield from _setup_tables(experiment, definition, setup, runs)
        yield from _mean_tables(experiment, definition, shown)


def _split_tables(experiment: Experiment, results: Results, locations: Locations, scorers: Scorers) -> Iterator[Table]:
    """One table for each setup whose collection has a file of splits: every condition on every split."""
    for setup, runs in results.items():
        collection, own = experiment.collections[setup.collection], scorers.get(setup.collection)
        if own is None or collection.splits is None or not locations.is_file(collection.splits):
            continue
        scorer = own.with_answers or own.scorer
        topics = read_topics(locations.expanded(collection.topics), only=set(scorer.queries))
        order = [str(qid) for qid in topics.topics]
        splits = read_splits(locations.expanded(collection.splits), judged=scorer.queries, topics=order)
        named = [run._replace(name=experiment.conditions[name].title) for name, run in runs.items()]
        table = split_table(scorer, named, splits)
        yield table._replace(title=f"{table.title}: {_setup_title(experiment, setup)}")


def _setup_title(experiment: Experiment, setup: Setup) -> str:
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
    """A line of a table: its title, and what was measured."""

    title: str
    run: MeasuredRun


def _setup_tables(
    experiment: Experiment, definition: TableDefinition, setup: Setup, runs: Mapping[str, MeasuredRun]
) -> Iterator[ReportTable]:
    """A line for each condition."""
    lines = {name: _TableLine(experiment.conditions[name].title, run) for name, run in runs.items()}
    published = experiment.paper.get(setup.name, {})
    title = f"{definition.title}: {_setup_title(experiment, setup)}"
    yield _means_table(experiment, lines, published, first_column="condition", title=title)
    yield from _comparison_tables(experiment, lines, definition.baselines, first_column="condition", title=title)


def _reranker_tables(experiment: Experiment, definition: TableDefinition, results: Results) -> Iterator[ReportTable]:
    """A line for each re-ranker; one table for each condition, collection, encoder and index."""
    for condition in definition.conditions:
        groups: dict[tuple[str, ...], dict[str, _TableLine]] = {}
        for setup, runs in results.items():
            if setup.reranker in definition.rerankers and condition in runs:
                run = runs[condition]._replace(name=setup.reranker)
                title = experiment.rerankers[setup.reranker].title
                groups.setdefault(setup[:3], {})[setup.reranker] = _TableLine(title, run)
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
    has_paper = any(published.values())
    columns = [first_column, *experiment.measures, "labels/query"]
    columns += [f"{measure} (paper)" for measure in experiment.measures] * has_paper
    body = []
    for name, line in lines.items():
        fields = [line.title, *map(_number, line.run.means.values()), _number(_labels(line.run), 1)]
        fields += [_number(published.get(name, {}).get(measure)) for measure in experiment.measures] * has_paper
        body.append(fields)
    legend = " ".join([LABELS, *[PAPER] * has_paper])
    return Table([columns, *body], title=title, legend=legend), True


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
        yield table, baseline == present[0]


def _mean_tables(experiment: Experiment, definition: TableDefinition, shown: Results) -> Iterator[ReportTable]:
    """Means over collections for each encoder, index and re-ranker, of the conditions that every collection has."""
    groups: dict[tuple[str, ...], list[Setup]] = {}
    for setup in shown:
        groups.setdefault(setup[1:4], []).append(setup)
    for members in groups.values():
        common = [name for name in definition.conditions if all(name in shown[setup] for setup in members)]
        if len(members) < 2 or not common:
            continue
        where = _setup_title(experiment, members[0]).split(", ", 1)[1]
        title = f"{definition.title}: mean of {', '.join(setup.collection for setup in members)}, {where}"
        rows = {name: [shown[setup][name] for setup in members] for name in common}
        body = [[experiment.conditions[name].title, *_mean_line(experiment, runs)] for name, runs in rows.items()]
        head = ["condition", *experiment.measures]
        yield Table([[*head, "labels/query"], *body], title=title, legend=LABELS), True
        present = [name for name in definition.baselines if name in common]
        for baseline in present:
            body = [
                [experiment.conditions[name].title, *(_pooled(one, runs, rows[baseline]) for one in head[1:])]
                for name, runs in rows.items()
                if name != baseline
            ]
            against = f"{title}, against {experiment.conditions[baseline].title}"
            table = Table([head, *body], title=against, legend=POOLED)
            yield table, baseline == present[0]


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


# --- Figures ---

# The colours of Okabe and Ito, which colour-blind readers can distinguish, and two more.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B22222", "#888888")
_MARKERS = "osD^vPX*"


class Curve(NamedTuple):
    """Points (x, y) in order of x."""

    title: str
    points: Sequence[tuple[float, float]]


def write_figures(experiment: Experiment, results: Results, folder: Path) -> Iterator[Path]:
    """Draw the figures that have points."""
    for name, figure in experiment.figures.items():
        panels = curves_by_setup(experiment, figure, results)
        if panels:
            swept = figure.kind == "sweep"
            x = experiment.sweeps[figure.curves[0]].flag if swept else "labels per query"
            titles = {setup: _setup_title(experiment, setup) for setup in panels}
            output = folder / f"{name}.png"
            _draw_panels(panels, titles, title=figure.title, x=x, y=figure.measure, across=swept, output=output)
            yield output


def curves_by_setup(
    experiment: Experiment, figure: FigureDefinition, results: Results
) -> Mapping[Setup, Sequence[Curve]]:
    """The curves of each setup; setups without any curve of two points are left out."""
    curves = {setup: list(_curves(experiment, figure, setup, runs)) for setup, runs in results.items()}
    return {setup: own for setup, own in curves.items() if any(len(curve.points) > 1 for curve in own)}


def _curves(
    experiment: Experiment, figure: FigureDefinition, setup: Setup, runs: Mapping[str, MeasuredRun]
) -> Iterator[Curve]:
    """A curve for each sweep, and one point for each line."""
    points: dict[str, tuple[float, float]] = {}
    for name, run in runs.items():
        x = (experiment.conditions[name].value or 0.0) if figure.kind == "sweep" else _labels(run)
        if x is not None and figure.measure in run.means:
            points[name] = (x, run.means[figure.measure])
    for sweep in figure.curves:
        swept = [point for name, point in points.items() if experiment.conditions[name].sweep == sweep]
        yield Curve(experiment.sweeps[sweep].title, sorted(swept))
    for name in figure.lines:
        if name in points:
            yield Curve(experiment.conditions[name].title, [points[name]])


def _draw_panels(
    panels: Mapping[Setup, Sequence[Curve]],
    titles: Mapping[Setup, str],
    *,
    title: str,
    x: str,
    y: str,
    across: bool,
    output: Path,
) -> None:
    """Draw one panel for each setup: a column for each collection, a row for each encoder, index and re-ranker.

    Args:
        panels: the curves of each setup.
        titles: the title of each panel.
        title: the title of the figure.
        x: the name of the horizontal axis.
        y: the name of the vertical axis.
        across: draw curves of one point as horizontal lines.
        output: a .png, .pdf or .svg file.
    """
    from matplotlib.figure import Figure

    columns = list(dict.fromkeys(setup.collection for setup in panels))
    rows = list(dict.fromkeys(setup[1:4] for setup in panels))
    figure = Figure(figsize=(1.2 + 3.1 * len(columns), 1.6 + 2.4 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    legend: dict[str, Any] = {}
    names = list(dict.fromkeys(curve.title for curves in panels.values() for curve in curves))
    for panel in grid.flat:
        panel.set_axis_off()
    for setup, curves in panels.items():
        panel = grid[rows.index(setup[1:4])][columns.index(setup.collection)]
        panel.set_axis_on()
        panel.set_title(titles[setup], fontsize=8, parse_math=False)
        panel.tick_params(labelsize=7)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        panel.set_xlabel(x, fontsize=8, parse_math=False)
        panel.set_ylabel(y, fontsize=8, parse_math=False)
        if all(point[0].is_integer() for curve in curves for point in curve.points):
            panel.xaxis.get_major_locator().set_params(integer=True)
        for curve in curves:
            if curve.points:
                legend[curve.title] = _draw_curve(panel, curve, names.index(curve.title), across=across)
    figure.suptitle(title, fontsize=10, parse_math=False)
    legend_columns = max(1, min(4, len(legend), len(columns)))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=legend_columns, fontsize=8, frameon=False)
    save_picture(figure, output)


def _draw_curve(panel: Any, curve: Curve, number: int, *, across: bool) -> Any:
    """Draw a curve in the colour and with the marker of its number."""
    color = _COLORS[number % len(_COLORS)]
    if across and len(curve.points) == 1:
        return panel.axhline(curve.points[0][1], color=color, linestyle=":", linewidth=1.2)
    xs, ys = zip(*curve.points, strict=True)
    return panel.plot(xs, ys, color=color, marker=_MARKERS[number % len(_MARKERS)], markersize=4, linewidth=1.2)[0]
