# PYTHON_ARGCOMPLETE_OK
"""Measure runs side by side with ir-measures."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from html import escape
from typing import Any, Self

from tour_pyserini.answers import uses_patterns
from tour_pyserini.command import run
from tour_pyserini.data.json_results import read_predictions
from tour_pyserini.data.judgements import read_qrels, read_splits
from tour_pyserini.data.run_records import record_path
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import Question, read_questions, read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answers_needed
from tour_pyserini.evaluation.measures import Scorer, measure_runs
from tour_pyserini.evaluation.paired_tests import TESTS, compare_with_baseline, gains
from tour_pyserini.evaluation.pictures import check_picture, draw_gains, gains_svg
from tour_pyserini.evaluation.tables import (
    FORMATS,
    Table,
    comparison_table,
    examples,
    means_table,
    origins_table,
    split_table,
)
from tour_pyserini.flags import Request, option, request_parser
from tour_pyserini.support.files import atomic_write, check_output

MEASURES = ("nDCG@10", "R@100")

_paired = partial(option, group="comparison with a baseline")
_texts = partial(option, group="queries and documents")


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Request):
    """Measure runs side by side; the fields are the flags of `python -m tour_pyserini.compare`.

    Attributes:
        qrels: judgements, TREC or BEIR.
        runs: TREC runs; the record beside a run tells its costs, signals and models.
        measures: names of ir-measures, and EM@k or F1@k for predictions.
        format: how tables are written: text, markdown, latex or csv.
        output: write the report to this file.
        baseline: one of the runs, compared with every other by a paired test.
        test: the paired test: randomisation or t.
        alpha: level of significance, after Holm's correction.
        picture: draw gains by query on the first measure to this file.
        show: show so many of the largest gains and losses; needs topics and corpus.
        predictions: files of predicted answers, one per run.
        splits: a file that puts queries into splits.
        topics: texts of the queries.
        corpus: texts of the documents.
    """

    qrels: str = option(MISSING, "judgements: TREC or BEIR, or irds:NAME", positional=True)
    runs: Sequence[str] = option(MISSING, "TREC runs; records beside them tell costs and models", positional=True)
    measures: Sequence[str] = option(MEASURES, f"names of ir-measures (default: {' '.join(MEASURES)})")
    format: str = option("text", "how tables are written", choices=tuple(FORMATS))
    output: str | None = option(None, "write the report to this file, not to the screen")
    baseline: str | None = _paired(None, "the run that every other is compared with")
    test: str = _paired("randomisation", "paired test", choices=tuple(TESTS))
    alpha: float = _paired(0.05, "significance, after Holm's correction")
    picture: str | None = _paired(None, "draw gains by query: .png, .pdf or .svg")
    show: int | None = _paired(None, "show the N largest gains and losses, with texts", count=True)
    predictions: Sequence[str] = option((), "answers for EM@k and F1@k, one file a run", group="predicted answers")
    splits: str | None = _texts(None, "measure splits too; lines of qid and split")
    topics: str | None = _texts(None, "texts of the queries")
    corpus: str | None = _texts(None, "texts of the documents, as for search")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(answers_needed(self.measures)) != bool(self.predictions):
            raise TourError("EM@k and F1@k measure --predictions; give both, or neither.")
        if self.predictions and len(self.predictions) != len(self.runs):
            raise TourError(
                f"there are {len(self.predictions)} files of predictions for {len(self.runs)} runs; give one each."
            )
        if self.predictions and self.topics is None:
            raise TourError("EM@k and F1@k need the questions' answers; give --topics.")
        if not 0 < self.alpha < 1:
            raise TourError(f"--alpha must be between 0 and 1, not {self.alpha:g}.")
        if self.baseline is None and (self.picture is not None or self.show is not None):
            raise TourError("--picture and --show compare with a baseline; name one of the runs with --baseline.")
        if self.picture is not None:
            check_picture(self.picture)
        if self.show is not None and (self.topics is None or self.corpus is None):
            raise TourError("--show needs the texts of queries and documents; give --topics and --corpus.")
        if self.show is not None and self.format in ("latex", "csv"):
            raise TourError(f"--show writes text, which --format {self.format} cannot hold; choose text or markdown.")


class Report(str):
    """A report as text; a notebook shows its tables, and gains over a baseline as a figure.

    Attributes:
        parts: its tables, and passages as text.
        gains: of the other runs over the baseline, as `draw_gains` takes them; empty without a baseline.
    """

    parts: tuple[Table | str, ...]
    gains: Mapping[str, Any]

    def __new__(cls, text: str, parts: Sequence[Table | str], gains: Mapping[str, Any]) -> Self:
        """The text, and what it was made from."""
        report = super().__new__(cls, text)
        report.parts, report.gains = tuple(parts), gains
        return report

    @property
    def figure(self) -> str:
        """The gains by query as SVG; empty without a baseline."""
        return gains_svg(**self.gains) if self.gains else ""

    def _repr_html_(self) -> str:
        parts = [part._repr_html_() if isinstance(part, Table) else f"<pre>{escape(part)}</pre>" for part in self.parts]
        return "".join([*parts, self.figure])


def compare_runs(request: CompareRequest) -> Report:
    """Measure runs side by side.

    Returns:
        The report; it is also written to `request.output`, and gains are drawn to `request.picture`, where given.
    """
    _check_outputs(request)
    first = None if request.baseline is None else _baseline_position(request.baseline, request.runs)
    qrels = read_qrels(request.qrels)
    questions: Sequence[Question] = ()
    regex = False
    if request.predictions and request.topics is not None:
        questions, regex = read_questions(request.topics), uses_patterns(request.topics)
    scorer = Scorer(request.measures, qrels, questions, regex=regex, source=request.qrels)
    topics = splits = None
    # Pyserini takes seconds to start, so topics are read only where they are needed.
    if request.topics is not None and (request.splits is not None or request.show is not None):
        topics = read_topics(request.topics, only=set(scorer.queries))
    if request.splits is not None:
        order = None if topics is None else [str(qid) for qid in topics.topics]
        splits = read_splits(request.splits, judged=scorer.queries, topics=order)
    predictions = [read_predictions(file) for file in request.predictions]
    rows = measure_runs(scorer, request.runs, predictions)

    parts: list[Table | str] = [means_table(rows)]
    others, gained = [], dict[str, Any]()
    if first is not None:
        baseline, others = rows[first], rows[:first] + rows[first + 1 :]
        compared = compare_with_baseline(baseline, others, test=request.test)
        parts.append(comparison_table(compared, baseline.name, test=request.test, alpha=request.alpha))
        measure = next(iter(baseline.values))
        differences = {row.name: gains(row.values[measure], baseline.values[measure]) for row in others}
        gained = {"gained": differences, "baseline": baseline.name, "measure": measure}
    if splits is not None:
        parts.append(split_table(scorer, rows, splits))
    if table := origins_table(rows, None if first is None else rows[first].name):
        parts.append(table)
    if first is not None and request.show is not None and topics is not None:
        queries, texts = {str(qid): text for qid, text in topics}, open_texts(str(request.corpus))
        parts.append(examples(rows[first], others, qrels, shown=request.show, queries=queries, texts=texts))

    report = Report("\n\n".join(_written(part, request.format) for part in parts) + "\n", parts, gained)
    if request.output is not None:
        with atomic_write(request.output) as file:
            file.write(report)
    if request.picture is not None and gained:
        draw_gains(**gained, output=request.picture)
    return report


def _check_outputs(request: CompareRequest) -> None:
    """Find out before measuring that everything can be written, and over no input."""
    inputs = [request.qrels, *request.runs, *request.predictions, request.splits, request.topics, request.corpus]
    for output in filter(None, (request.output, request.picture)):
        check_output(output, [*inputs, *(record_path(run) for run in request.runs)])


def _baseline_position(baseline: str, runs: Sequence[str]) -> int:
    """The baseline's position among the runs; paths that lead to the same file are equal."""
    paths = [os.path.realpath(run) for run in runs]  # unlike Path.resolve, it accepts a loop of links
    if os.path.realpath(baseline) not in paths:
        raise TourError(f"the baseline {baseline} is not among the runs; name one of {', '.join(map(str, runs))}.")
    if len(runs) == 1:
        raise TourError(f"the baseline {baseline} is the only run; give another run to compare with it.")
    return paths.index(os.path.realpath(baseline))


def _written(part: Table | str, form: str) -> str:
    if isinstance(part, Table):
        return FORMATS[form](part)
    return f"```\n{part}\n```" if form == "markdown" else part


DESCRIPTION = "Measure runs side by side with ir-measures: means, costs, and differences from a baseline."

EXAMPLE = """examples:
  python -m tour_pyserini.compare qrels.tsv runs/*.trec --measures nDCG@10
  python -m tour_pyserini.compare qrels.tsv runs/*.trec --baseline runs/a.trec"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("compare", CompareRequest, description=DESCRIPTION, epilog=EXAMPLE)
    request = CompareRequest.from_flags(vars(parser.parse_args(argv)))
    report = compare_runs(request)
    if request.output is None:
        sys.stdout.write(report)


if __name__ == "__main__":
    run(main)
