"""The report of an experiment: tables and figures of measured runs.

There are tables for each setup, means over collections, re-rankers side by side, and splits. Means stand in one
table, and the comparisons with each baseline in one of their own.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.data.judgements import read_splits
from tour_pyserini.data.topics import read_topics
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import BaselineComparison, compare_with_baseline, gains, pooled_gain
from tour_pyserini.evaluation.pictures import figure_of, save_picture
from tour_pyserini.evaluation.tables import FORMATS, Table, number, split_table
from tour_pyserini.experiments.definition import FigureDefinition, Setup, TableDefinition
from tour_pyserini.experiments.measuring import Results, Scorers
from tour_pyserini.experiments.planning import Workspace
from tour_pyserini.support.files import atomic_write

ALPHA = 0.05  # level of significance
# The colours of Okabe and Ito, and two more.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B22222", "#888888")
MARKERS = "osD^vPX*"

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


class Report:
    """The tables and figures of measured runs.

    Attributes:
        tables: its tables, in their order.
    """

    def __init__(self, at: Workspace, results: Results, scorers: Scorers) -> None:
        self._at, self._experiment, self._results, self._scorers = at, at.experiment, results, scorers
        self._condition_titles = {name: one.title for name, one in at.experiment.conditions.items()}
        self.tables: list[Table] = [*self._tables(), *self._split_tables()]

    def __str__(self) -> str:
        """The tables in lines of at most 100 characters; a legend stands below its first table."""
        seen, parts = {""}, []
        for table in self.tables:
            parts.append(FORMATS["text"](table._replace(legend="") if table.legend in seen else table))
            seen.add(table.legend)
        return "\n\n".join(parts) + "\n"

    def write_tables(self, folder: Path) -> Iterator[Path]:
        """Write all tables as text, Markdown and LaTeX."""
        for name, ending in {"text": "txt", "markdown": "md", "latex": "tex"}.items():
            path = folder / f"tables.{ending}"
            with atomic_write(path) as file:
                file.write("\n\n".join(FORMATS[name](table) for table in self.tables) + "\n")
            yield path

    def _tables(self) -> Iterator[Table]:
        """The tables that the file defines; if it defines none, one table of all conditions for each setup.

        A table has one part for each setup, followed by the means over collections.
        """
        own, titles = self._experiment, self._condition_titles
        everything = {"": TableDefinition(title=own.title, conditions=tuple(own.conditions))}
        for table in (own.tables or everything).values():
            if table.rerankers:
                yield from self._reranker_tables(table)
                continue
            shown: dict[Setup, dict[str, MeasuredRun]] = {}
            for setup, runs in self._results.items():
                lines = {name: runs[name] for name in table.conditions if name in runs}
                # A setup is shown with several of the table's conditions, and a baseline if the table has baselines.
                has_baseline = not table.baselines or any(name in lines for name in table.baselines)
                if has_baseline and len(lines) >= min(2, len(table.conditions)):
                    shown[setup] = lines
                    title, published = f"{table.title}: {self._setup_title(setup)}", own.paper.get(setup.name, {})
                    yield from self._comparison(title, "condition", titles, lines, table.baselines, published)
            yield from self._mean_tables(table, shown)

    def _split_tables(self) -> Iterator[Table]:
        """One table for each setup whose collection has a file of splits: every condition on every split."""
        for setup, runs in self._results.items():
            collection, scorer = self._experiment.collections[setup.collection], self._scorers.get(setup.collection)
            if scorer is None or collection.splits is None or not self._at.is_file(collection.splits):
                continue
            topics = read_topics(self._at.expanded(collection.topics), only=set(scorer.queries))
            order = [str(qid) for qid in topics.topics]
            splits = read_splits(self._at.expanded(collection.splits), judged=scorer.queries, topics=order)
            table = split_table(
                scorer, [run._replace(name=self._condition_titles[name]) for name, run in runs.items()], splits
            )
            yield table._replace(title=f"{table.title}: {self._setup_title(setup)}")

    def _setup_title(self, setup: Setup, *, reranker: bool = True) -> str:
        """Collection, encoder and index, and the re-ranker if there are several."""
        own = self._experiment
        titles = [setup.collection, own.encoders[setup.encoder].title, own.indexes[setup.index_kind].title]
        if reranker and len(own.rerankers) > 1:
            titles.append(own.rerankers[setup.reranker].title)
        return ", ".join(titles)

    def _reranker_tables(self, table: TableDefinition) -> Iterator[Table]:
        """A line for each re-ranker; one table for each condition, collection, encoder and index."""
        own, titles = self._experiment, {name: one.title for name, one in self._experiment.rerankers.items()}
        for condition in table.conditions:
            groups: dict[tuple[str, ...], dict[str, Setup]] = {}
            for name in table.rerankers:
                for setup, runs in self._results.items():
                    if setup.reranker == name and condition in runs:
                        groups.setdefault(setup[:3], {})[name] = setup
            for setups in groups.values():
                lines = {name: self._results[setup][condition]._replace(name=name) for name, setup in setups.items()}
                published = {name: own.paper.get(setup.name, {}).get(condition, {}) for name, setup in setups.items()}
                where = self._setup_title(next(iter(setups.values())), reranker=False)
                title = f"{table.title}: {self._condition_titles[condition]}, {where}"
                yield from self._comparison(title, "re-ranker", titles, lines, table.rerankers[:1], published)

    def _comparison(
        self,
        title: str,
        first_column: str,
        titles: Mapping[str, str],
        lines: Mapping[str, MeasuredRun],
        baselines: Sequence[str],
        published: Mapping[str, Mapping[str, float]],
    ) -> Iterator[Table]:
        """A table of measures, costs and published scores, then one of paired tests against each baseline."""
        measures, has_paper = self._experiment.measures, any(published.values())
        head = [first_column, *measures, "labels/query"] + [f"{one} (paper)" for one in measures] * has_paper
        body = []
        for name, run in lines.items():
            fields = [titles[name], *map(number, run.means.values()), number(run.per_query("pairs"), 1)]
            fields += [number(published.get(name, {}).get(measure)) for measure in measures] * has_paper
            body.append(fields)
        yield Table([head, *body], title=title, legend=" ".join([LABELS, *[PAPER] * has_paper]))
        for baseline in [name for name in baselines if name in lines and len(lines) > 1]:
            others = [name for name in lines if name != baseline]
            found = compare_with_baseline(lines[baseline], [lines[name] for name in others])
            cells = {(one.run, one.measure): _comparison(one) for one in found}
            body = [[titles[name], *(cells[name, measure] for measure in measures)] for name in others]
            against = f"{title}, against {titles[baseline]} ({len(found)} comparisons)"
            yield Table([[first_column, *measures], *body], title=against, legend=COMPARISON)

    def _mean_tables(self, table: TableDefinition, shown: Results) -> Iterator[Table]:
        """Means over collections for each encoder, index and re-ranker, of the conditions that every collection has."""
        measures, titles = self._experiment.measures, self._condition_titles
        groups: dict[tuple[str, ...], list[Setup]] = {}
        for setup in shown:
            groups.setdefault(setup[1:4], []).append(setup)
        for members in groups.values():
            common = [name for name in table.conditions if all(name in shown[setup] for setup in members)]
            if len(members) < 2 or not common:
                continue
            where = self._setup_title(members[0]).split(", ", 1)[1]
            title = f"{table.title}: mean of {', '.join(setup.collection for setup in members)}, {where}"
            rows = {name: [shown[setup][name] for setup in members] for name in common}
            body = [[titles[name], *_mean_line(measures, runs)] for name, runs in rows.items()]
            yield Table([["condition", *measures, "labels/query"], *body], title=title, legend=LABELS)
            for baseline in [name for name in table.baselines if name in common]:
                body = [
                    [titles[name], *(_pooled(one, rows[name], rows[baseline]) for one in measures)]
                    for name in rows
                    if name != baseline
                ]
                against = f"{title}, against {titles[baseline]}"
                yield Table([["condition", *measures], *body], title=against, legend=POOLED)

    def curves(self, figure: FigureDefinition) -> dict[Setup, dict[str, list[tuple[float, float]]]]:
        """Points (x, y) in order of x, by setup and title: for each sweep a curve, and for each line a point.

        Setups without any curve of two points are left out.
        """
        panels, conditions = {}, self._experiment.conditions
        for setup, runs in self._results.items():
            points: dict[str, tuple[float, float]] = {}
            for name, run in runs.items():
                x = conditions[name].value or 0.0 if figure.kind == "sweep" else run.per_query("pairs")
                if x is not None and figure.measure in run.means:
                    points[name] = (x, run.means[figure.measure])
            curves = {
                self._experiment.sweeps[sweep].title: sorted(
                    points[name] for name in points if conditions[name].sweep == sweep
                )
                for sweep in figure.curves
            }
            curves |= {conditions[name].title: [points[name]] for name in figure.lines if name in points}
            if any(len(curve) > 1 for curve in curves.values()):
                panels[setup] = curves
        return panels

    def write_figures(self, folder: Path) -> Iterator[Path]:
        """Draw the figures that have points, with a panel for each setup."""
        for name, definition in self._experiment.figures.items():
            if panels := self.curves(definition):
                save_picture(self._draw(definition, panels), folder / f"{name}.png")
                yield folder / f"{name}.png"

    def _draw(
        self, definition: FigureDefinition, panels: Mapping[Setup, Mapping[str, Sequence[tuple[float, float]]]]
    ) -> Any:
        swept, drawn = definition.kind == "sweep", dict[str, Any]()
        titles = list(dict.fromkeys(title for curves in panels.values() for title in curves))
        figure, axes = figure_of(len(panels))
        for panel, (setup, curves) in zip(axes, panels.items(), strict=True):
            panel.set_title(self._setup_title(setup), fontsize=8, parse_math=False)
            panel.set_xlabel(self._experiment.sweeps[definition.curves[0]].flag if swept else "labels per query")
            panel.set_ylabel(definition.measure)
            for title, points in curves.items():
                number = titles.index(title)
                color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
                if swept and len(points) == 1:
                    drawn[title] = panel.axhline(points[0][1], color=color, linestyle=":")
                elif points:
                    (drawn[title],) = panel.plot(*zip(*points, strict=True), color=color, marker=marker, markersize=4)
        figure.suptitle(definition.title, fontsize=10, parse_math=False)
        figure.legend(drawn.values(), drawn, loc="outside lower center", ncols=min(3, len(panels)), fontsize=8)
        return figure


def _mean_line(measures: Sequence[str], runs: Sequence[MeasuredRun]) -> list[str]:
    means = [sum(run.means[measure] for run in runs) / len(runs) for measure in measures]
    labels = [math.nan if (count := run.per_query("pairs")) is None else count for run in runs]
    return [*map(number, means), number(sum(labels) / len(labels), 1)]


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
