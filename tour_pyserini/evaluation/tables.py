"""Reports of measured runs: tables as text, Markdown, LaTeX and CSV, and the queries with the largest differences."""

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import first_words
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer
from tour_pyserini.evaluation.paired_tests import BaselineComparison, gains

if TYPE_CHECKING:
    from ir_measures import Qrel

WIDTH = 100  # characters of a line of text
NO_SPLIT = "(no split)"
CHARACTERS = 160  # most of a passage that `examples` shows
DOCUMENTS = 8  # most relevant documents of a query that it shows


class Table(NamedTuple):
    """A table of text cells.

    Attributes:
        cells: rows of cells; the first row is the head.
        words: how many columns, from the left, are words; the others are numbers and are aligned right.
        title: the line above the table.
        legend: the line below the table: what its cells mean.
    """

    cells: Sequence[Sequence[str]]
    words: int = 1
    title: str = ""
    legend: str = ""

    def _repr_html_(self) -> str:
        """The table as HTML; the cells are shown as they are, whatever they contain."""
        sides = ["left"] * self.words + ["right"] * (len(self.cells[0]) - self.words)
        head, *body = [
            "".join(
                f'<{"td" if row else "th"} style="text-align: {side}">{escape(cell)}</{"td" if row else "th"}>'
                for side, cell in zip(sides, line, strict=True)
            )
            for row, line in enumerate(self.cells)
        ]
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        rows = "".join(f"<tr>{line}</tr>" for line in body)
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def number(value: float | None, digits: int = 4) -> str:
    """A number as a cell; "-" where there is none, or NaN."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _as_text(table: Table) -> str:
    """Plain text with columns aligned by spaces; a wide table is cut into parts, each with the columns of words."""
    widths = [max(map(len, column)) for column in zip(*table.cells, strict=True)]
    parts = []
    for columns in _column_groups(widths, table.words):
        sides = [(i, str.ljust if i < table.words else str.rjust) for i in columns]
        lines = ["  ".join(side(line[i], widths[i]) for i, side in sides).rstrip() for line in table.cells]
        parts.append("\n".join(lines))
    title, legend = (textwrap.fill(text, WIDTH) for text in (table.title, table.legend))
    return "\n\n".join(filter(None, [title, *parts, legend]))


def _column_groups(widths: Sequence[int], words: int) -> Iterator[list[int]]:
    """The columns of each part of a table, by their positions."""
    group = list(range(words))
    for column in range(words, len(widths)):
        if len(group) > words and sum(widths[i] + 2 for i in [*group, column]) - 2 > WIDTH:
            yield group
            group = list(range(words))
        group.append(column)
    yield group


def _as_markdown(table: Table) -> str:
    """A Markdown table."""

    def escaped(text: str) -> str:
        return text.replace("|", r"\|").replace("*", r"\*")

    head, *body = [list(map(escaped, line)) for line in table.cells]
    rule = ["---"] * table.words + ["---:"] * (len(head) - table.words)
    lines = "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *body])
    return "\n\n".join(filter(None, [escaped(table.title), lines, escaped(table.legend)]))


def _as_latex(table: Table) -> str:
    """A LaTeX tabular with booktabs rules; title and legend are comments."""
    import pandas

    head, *body = table.cells
    columns = "l" * table.words + "r" * (len(head) - table.words)
    lines = pandas.DataFrame(body, columns=list(head)).to_latex(index=False, escape=True, column_format=columns)
    title, legend = (f"% {text}" if text else "" for text in (table.title, table.legend))
    return "\n".join(filter(None, [title, lines.rstrip("\n"), legend]))


def _as_csv(table: Table) -> str:
    """Comma-separated values, quoted where needed, without title and legend."""
    import pandas

    head, *body = table.cells
    return pandas.DataFrame(body, columns=list(head)).to_csv(index=False, lineterminator="\n").rstrip("\n")


_Format = Callable[[Table], str]
FORMATS: Mapping[str, _Format] = {"text": _as_text, "markdown": _as_markdown, "latex": _as_latex, "csv": _as_csv}


def means_table(runs: Sequence[MeasuredRun]) -> Table:
    """A row per run: means to four digits, labels and updates per query.

    If a run has no hits for some judged queries, the column `answered` shows for how many each run has hits.
    """
    cells = [["run", "answered", *runs[0].means, "labels/query", "updates/query"]]
    for run in runs:
        costs = number(run.per_query("pairs"), 1), number(run.per_query("updates"), 2)
        cells.append([run.name, str(run.answered.sum()), *map(number, run.means.values()), *costs])
    if all(run.answered.all() for run in runs):
        cells = [[line[0], *line[2:]] for line in cells]
    return Table(cells)


def comparison_table(comparisons: Sequence[BaselineComparison], baseline: str, *, test: str, alpha: float) -> Table:
    """A row per run and measure: difference, wins, ties, losses, p, Holm's p, and a star if that is at most alpha."""
    count = f"{len(comparisons)} comparison{'s' if len(comparisons) > 1 else ''}"
    title = f"Against {baseline}: paired {test} test, Holm's correction over {count}; * at {alpha:g}"
    head = ["run", "measure", "difference", "wins", "ties", "losses", "p", "p (Holm)", "significant"]
    body = [
        [
            *(compared.run, compared.measure, f"{compared.difference:+.4f}", *map(str, compared.outcomes)),
            *(_p_value(compared.p), _p_value(compared.adjusted), "*" if compared.adjusted <= alpha else ""),
        ]
        for compared in comparisons
    ]
    return Table([head, *body], words=2, title=title)


def split_table(scorer: Scorer, runs: Sequence[MeasuredRun], splits: Mapping[str, Set[str]]) -> Table:
    """A row per split and run: judged queries of the split, means to four digits.

    Args:
        scorer: what measured the runs.
        runs: the runs.
        splits: the queries of each split; judged queries without a split come last, if there are any.
    """
    members = {name: np.array([query in ids for query in scorer.queries]) for name, ids in splits.items()}
    rest = ~np.any(list(members.values()), axis=0)
    if rest.all():
        raise TourError(
            "none of the queries in the splits is judged; check that splits and judgements belong together."
        )
    if rest.any():
        members[NO_SPLIT] = rest
    body = []
    for split, kept in members.items():
        for run in runs:
            means = {measure: scorer.aggregate(measure, values[kept]) for measure, values in run.values.items()}
            body.append([split, run.name, str(kept.sum()), *map(number, means.values())])
    return Table([["split", "run", "queries", *runs[0].means], *body], words=2, title="By split")


def origins_table(runs: Sequence[MeasuredRun], baseline: str | None = None) -> Table | None:
    """How the runs with a record were made: method, signals, re-ranker and labels per query.

    A sentence below says which differ in more than the method: a fair comparison is at equal signals and labels.

    Args:
        runs: the runs; one whose inputs were not recorded is not shown.
        baseline: the run that the others are compared with; None: the first.
    """
    head = ["run", "method", "signals", "re-ranker", "labels/query"]
    # The record of an experiment's run, which has `settings`, has checksums in place of paths.
    rows = [_origin(run) for run in runs if run.record.get("files") and "settings" not in run.record]
    if not rows:
        return None
    base = next((row for row in rows if row[0] == baseline), rows[0])
    differ = []
    for column in range(2, len(head)):
        others = [row for row in rows if row[column] != base[column]]
        if head[column] == "re-ranker":
            others = [row for row in others if "-" not in (row[column], base[column])]  # no labels are no other model
        if others:
            differ.append(f"{head[column]} of {', '.join(row[0] for row in others)}")
    legend = f"Unlike {base[0]}: {'; '.join(differ)}. A fair comparison is at equal signals and labels."
    return Table([head, *rows], words=4, title="How the runs were made", legend=legend if differ else "")


def _origin(run: MeasuredRun) -> list[str]:
    """The cells of a run; a re-ranker is what the command called it, and a part of its checksum."""
    record = run.record
    signals = [
        Path(file.get("path") or file["name"]).name
        for role, file in record["files"].items()
        if role.startswith(("index", "sparse", "run"))
    ]
    reranker = re.sub(r"([0-9a-f]{8})[0-9a-f]{24,}", r"\1", str(record["models"].get("reranker", "-")))
    command = record.get("command", [])
    if "--reranker" in command and reranker != "-":
        name = Path(command[command.index("--reranker") + 1]).name
        reranker = f"{name} ({reranker.rpartition(':')[2]})"
    method = record["config"].split()[0].removeprefix("method=")
    return [run.name, method, " + ".join(signals), reranker, number(run.per_query("pairs"), 1)]


def _p_value(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"


def examples(
    baseline: MeasuredRun,
    others: Sequence[MeasuredRun],
    qrels: Sequence["Qrel"],
    *,
    shown: int,
    queries: Mapping[str, str],
    texts: Mapping[str, str],
) -> str:
    """Show the largest gains and the largest losses of each run on the first measure.

    Args:
        baseline: the run to compare with.
        others: the other runs, measured on the same queries.
        qrels: the judgements; a document with a grade above 0 is relevant.
        shown: most gains, and most losses, to show for each run.
        queries: query id to text.
        texts: docid to passage.

    Returns:
        Text; `*` marks a relevant document.
    """
    relevant: dict[str, list[str]] = {qrel.query_id: [] for qrel in qrels}
    for qrel in sorted(qrels, key=lambda qrel: -qrel.relevance):
        if qrel.relevance > 0:
            relevant[qrel.query_id].append(qrel.doc_id)
    measure, before = next(iter(baseline.values)), _docids(baseline)
    judged, lines = list(relevant), list[str]()
    for run in others:
        after, gained = _docids(run), gains(run.values[measure], baseline.values[measure])
        for name, sign in (("rescued", 1), ("lost", -1)):  # equal gains are in the order of the judgements
            part = [at for at in np.argsort(-sign * gained, kind="stable")[:shown] if sign * gained[at] > 0]
            lines += ["", f"{name} by {run.name} against {baseline.name} ({measure}): {len(part)} shown"]
            for query, gain in ((judged[at], gained[at]) for at in part):
                if query not in queries:
                    raise TourError(f"query {query!r} is judged but not in the topics; give the topics of the runs.")
                lines += ["", f"{gain:+.4f}  {query}  {first_words(queries[query], CHARACTERS)}"]
                lines += _evidence(before.get(query, []), after.get(query, []), relevant[query], texts)
    return "\n".join(lines[1:])


def _docids(run: MeasuredRun) -> dict[str, list[str]]:
    """The docids of each query of a run, best first."""
    return {query: [hit.doc_id for hit in hits] for query, hits in read_rankings(run.path).items()}


def _evidence(
    before: Sequence[str], after: Sequence[str], relevant: Sequence[str], texts: Mapping[str, str]
) -> Iterator[str]:
    """The ranks of relevant documents in both runs, and the first hit of each run."""
    ranks = [{docid: rank for rank, docid in enumerate(ranking, start=1)} for ranking in (before, after)]
    best = sorted(relevant, key=lambda docid: min(by_docid.get(docid, math.inf) for by_docid in ranks))
    moves = [f"{docid} {' -> '.join(str(by_docid.get(docid, '-')) for by_docid in ranks)}" for docid in best]
    more = f", and {len(best) - DOCUMENTS} more" if len(best) > DOCUMENTS else ""
    yield f"    relevant, by rank: {', '.join(moves[:DOCUMENTS]) or 'none'}{more}"
    for name, ranking in (("before", before), ("after", after)):
        hit = "  no hits"
        if ranking:
            hit = f"{'*' if ranking[0] in relevant else ' '} {ranking[0]}  {first_words(texts[ranking[0]], CHARACTERS)}"
        yield f"    {name:6s}  {hit}"
