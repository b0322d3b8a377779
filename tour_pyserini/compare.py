"""Measure runs side by side with ir-measures: means, costs, and what each run gains over a baseline."""

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tour_pyserini.cli.command import run
from tour_pyserini.cli.compare_flags import check_flags, check_outputs, compare_parser
from tour_pyserini.data.qrels_file import read_qrels
from tour_pyserini.data.splits import read_splits
from tour_pyserini.data.topics import read_questions
from tour_pyserini.evaluation.answer_matching import has_patterns
from tour_pyserini.evaluation.answer_measures import ScorerWithAnswers, is_answer_measure
from tour_pyserini.evaluation.comparison import baseline_position, by_split, compare_with_baseline, measured
from tour_pyserini.evaluation.examples import examples
from tour_pyserini.evaluation.gains_picture import draw_gains
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer, UnjudgedCheck
from tour_pyserini.evaluation.paired_tests import gains
from tour_pyserini.evaluation.tables import FORMATS, comparison_table, means_table, split_table
from tour_pyserini.support.files import atomic_write

if TYPE_CHECKING:
    from ir_measures import Qrel
    from pyserini.query_iterator import QueryIterator

log = logging.getLogger(__name__)


class _Measured(NamedTuple):
    """What the report is made of; `at` is the place of the baseline among the rows."""

    rows: list[MeasuredRun]
    at: int | None
    qrels: list["Qrel"]
    scorer: Scorer | ScorerWithAnswers
    splits: dict[str, set[str]] | None
    topics: "QueryIterator | None"

    def sides(self) -> tuple[MeasuredRun, list[MeasuredRun]]:
        """The baseline, and the other runs."""
        assert self.at is not None
        return self.rows[self.at], self.rows[: self.at] + self.rows[self.at + 1 :]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = compare_parser().parse_args(argv)
    check_flags(args)
    check_outputs(args)
    found = _measured(args)
    report = "\n\n".join(_parts(args, found)) + "\n"
    if args.output is None:
        sys.stdout.write(report)
    else:
        with atomic_write(args.output) as file:
            file.write(report)
    if args.picture is not None:
        _draw(found, args.picture)


def _measured(args: argparse.Namespace) -> _Measured:
    at = None if args.baseline is None else baseline_position(args.baseline, args.runs)
    qrels = read_qrels(args.qrels)
    scorer = Scorer([name for name in args.measures if not is_answer_measure(name)], qrels)
    topics = _topics(args)
    splits = None
    if args.splits is not None:
        order = None if topics is None else [str(qid) for qid in topics.topics]
        splits = read_splits(args.splits, judged=scorer.queries, topics=order)
    with_answers = None
    if args.predictions:
        regex = has_patterns(args.topics)
        if regex:
            log.warning("the answers of %s are read as regular expressions, by its name", args.topics)
        with_answers = ScorerWithAnswers(scorer, args.measures, read_questions(args.topics), regex=regex)
    rows = measured(scorer, args.runs, qrels=args.qrels, unjudged=UnjudgedCheck(qrels))
    if with_answers is not None:
        rows = [with_answers.add(row, file) for row, file in zip(rows, args.predictions, strict=True)]
    return _Measured(rows, at, qrels, with_answers or scorer, splits, topics)


def _parts(args: argparse.Namespace, found: _Measured) -> Iterator[str]:
    """The parts of the report, one after the other."""
    written = FORMATS[args.format]
    yield written(means_table(found.rows))
    if found.at is not None:
        baseline, others = found.sides()
        compared = compare_with_baseline(baseline, others, test=args.test)
        yield written(comparison_table(compared, baseline.name, test=args.test, alpha=args.alpha))
    if found.splits is not None:
        yield written(split_table(by_split(found.scorer, found.rows, found.splits)))
    if found.at is not None and args.show is not None and found.topics is not None:
        from tour_pyserini.data.texts import open_texts

        queries = {str(qid): text for qid, text in found.topics}
        texts = open_texts(args.corpus)
        shown = examples(*found.sides(), found.qrels, shown=args.show, queries=queries, texts=texts)
        yield f"```\n{shown}\n```" if args.format == "markdown" else shown


def _draw(found: _Measured, output: str) -> None:
    baseline, others = found.sides()
    measure = next(iter(baseline.values))
    gained = {row.name: gains(row.values[measure], baseline.values[measure]) for row in others}
    draw_gains(gained, baseline=baseline.name, measure=measure, output=output)


def _topics(args: argparse.Namespace) -> "QueryIterator | None":
    # Pyserini takes seconds to start; only what needs the topics waits for it.
    if args.topics is None or (args.splits is None and args.show is None):
        return None
    from tour_pyserini.data.topics import read_topics

    return read_topics(args.topics)


if __name__ == "__main__":
    run(main)
