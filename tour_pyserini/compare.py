"""Measure runs side by side with ir-measures: means, costs, and what each run gains over a baseline."""

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tour_pyserini.arguments import Help
from tour_pyserini.command import run
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.against import against
from tour_pyserini.evaluation.answer_matching import has_patterns
from tour_pyserini.evaluation.answer_scores import is_answer_measure
from tour_pyserini.evaluation.by_split import by_split
from tour_pyserini.evaluation.comparison import Row, measured, place_of
from tour_pyserini.evaluation.examples import examples
from tour_pyserini.evaluation.files import read_qrels
from tour_pyserini.evaluation.formats import FORMATS
from tour_pyserini.evaluation.gains import gains
from tour_pyserini.evaluation.outputs import check_output
from tour_pyserini.evaluation.picture import check_picture, draw_gains
from tour_pyserini.evaluation.scores import Scorer
from tour_pyserini.evaluation.significance import TESTS
from tour_pyserini.evaluation.splits import read_splits
from tour_pyserini.evaluation.table import against_table, means_table, split_table
from tour_pyserini.evaluation.unjudged import Unjudged
from tour_pyserini.evaluation.with_answers import ScorerWithAnswers
from tour_pyserini.files import written_whole
from tour_pyserini.record import record_path
from tour_pyserini.topics.questions import read_questions

if TYPE_CHECKING:
    from ir_measures import Qrel
    from pyserini.query_iterator import QueryIterator

log = logging.getLogger(__name__)

EXAMPLE = """examples:
  python -m tour_pyserini.compare qrels/demo.trec runs/demo.*.trec --measures nDCG@10 R@100
  python -m tour_pyserini.compare qrels/demo.trec runs/demo.*.trec --baseline runs/demo.dense.trec --picture a.png"""


class _Measured(NamedTuple):
    """What the report is made of; `at` is the place of the baseline among the rows."""

    rows: list[Row]
    at: int | None
    qrels: list["Qrel"]
    scorer: Scorer | ScorerWithAnswers
    splits: dict[str, set[str]] | None
    topics: "QueryIterator | None"

    def sides(self) -> tuple[Row, list[Row]]:
        """The baseline, and the other runs."""
        assert self.at is not None
        return self.rows[self.at], self.rows[: self.at] + self.rows[self.at + 1 :]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    _check(args)
    _check_outputs(args)
    found = _measured(args)
    report = "\n\n".join(_parts(args, found)) + "\n"
    if args.output is None:
        sys.stdout.write(report)
    else:
        with written_whole(args.output) as file:
            file.write(report)
    if args.picture is not None:
        _draw(found, args.picture)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.compare", description=__doc__, epilog=EXAMPLE, formatter_class=Help
    )
    parser.add_argument("qrels", help="judgements: TREC or BEIR")
    parser.add_argument("runs", nargs="+", help="TREC runs; the record beside a run gives its costs")
    parser.add_argument("--measures", nargs="+", default=["nDCG@10", "R@100"], help="names of ir-measures")
    parser.add_argument("--format", choices=list(FORMATS), default="text", help="how tables are written")
    parser.add_argument("--output", metavar="FILE", help="write here instead of to the screen")
    paired = parser.add_argument_group("against a baseline")
    paired.add_argument("--baseline", metavar="RUN", help="one of the runs, compared with every other")
    paired.add_argument("--test", choices=list(TESTS), default="randomisation", help="paired test")
    paired.add_argument("--alpha", type=float, default=0.05, help="level of significance, after Holm's correction")
    paired.add_argument("--picture", metavar="FILE", help="draw gains by query on the first measure: .png, .pdf, .svg")
    paired.add_argument(
        "--show", type=int, metavar="N", help="show the N largest gains and losses; needs --topics and --corpus"
    )
    answers = parser.add_argument_group("predicted answers")
    answers.add_argument(
        "--predictions",
        nargs="+",
        metavar="FILE",
        help="JSON lines (qid, answer, score), one file per run, for EM@k and F1@k",
    )
    queries = parser.add_argument_group("the queries")
    queries.add_argument(
        "--splits", metavar="FILE", help="measure splits: overlap annotations, or lines `qid<TAB>split`"
    )
    queries.add_argument("--topics", metavar="FILE", help="texts of the queries, and the order that annotations count")
    queries.add_argument("--corpus", metavar="FILE", help="texts of the documents: BEIR corpus or Lucene index")
    return parser


def _of_answers(args: argparse.Namespace) -> list[str]:
    return [name for name in args.measures if is_answer_measure(name)]


def _check(args: argparse.Namespace) -> None:
    if bool(_of_answers(args)) != bool(args.predictions):
        raise TourError("EM@k and F1@k measure --predictions; give both, or neither.")
    if args.predictions and len(args.predictions) != len(args.runs):
        raise TourError(
            f"there are {len(args.predictions)} files of predictions for {len(args.runs)} runs; give one each."
        )
    if len(_of_answers(args)) == len(args.measures):
        raise TourError("--measures names none of the runs; add one of ir-measures, such as Success@1.")
    if args.predictions and args.topics is None:
        raise TourError("EM@k and F1@k need the questions' answers; give --topics.")
    if not 0 < args.alpha < 1:
        raise TourError(f"--alpha must be between 0 and 1, not {args.alpha:g}.")
    if args.baseline is None and (args.picture is not None or args.show is not None):
        raise TourError("--picture and --show compare with a baseline; name one of the runs with --baseline.")
    if args.picture is not None:
        check_picture(args.picture)
    if args.show is None:
        return
    if args.show < 1:
        raise TourError(f"--show must be at least 1, not {args.show}.")
    if args.topics is None or args.corpus is None:
        raise TourError("--show needs the texts of queries and documents; give --topics and --corpus.")
    if args.format in ("latex", "csv"):
        raise TourError(f"--show writes text, which --format {args.format} has no place for; choose text or markdown.")


def _check_outputs(args: argparse.Namespace) -> None:
    inputs = [args.qrels, *args.runs, *(args.predictions or ()), args.splits, args.topics, args.corpus]
    inputs += [record_path(run) for run in args.runs]
    outputs = [output for output in (args.output, args.picture) if output is not None]
    for output in outputs:
        check_output(output, inputs)
    if len(outputs) == 2 and os.path.realpath(args.output) == os.path.realpath(args.picture):
        raise TourError(f"--output and --picture are both {args.output}; choose two files.")


def _measured(args: argparse.Namespace) -> _Measured:
    at = None if args.baseline is None else place_of(args.baseline, args.runs)
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
    rows = measured(scorer, args.runs, qrels=args.qrels, unjudged=Unjudged(qrels))
    if with_answers is not None:
        rows = [with_answers.add(row, file) for row, file in zip(rows, args.predictions, strict=True)]
    return _Measured(rows, at, qrels, with_answers or scorer, splits, topics)


def _parts(args: argparse.Namespace, found: _Measured) -> Iterator[str]:
    """The parts of the report, one after the other."""
    written = FORMATS[args.format]
    yield written(means_table(found.rows))
    if found.at is not None:
        baseline, others = found.sides()
        compared = against(baseline, others, test=args.test)
        yield written(against_table(compared, baseline.name, test=args.test, alpha=args.alpha))
    if found.splits is not None:
        yield written(split_table(by_split(found.scorer, found.rows, found.splits)))
    if found.at is not None and args.show is not None and found.topics is not None:
        from tour_pyserini.texts import open_texts

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
    from tour_pyserini.topics import read_topics

    return read_topics(args.topics)


if __name__ == "__main__":
    run(main)
