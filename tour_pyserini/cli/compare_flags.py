"""What the comparison command can be told, and what contradicts itself."""

import argparse
import os

from tour_pyserini.cli.flags import Help
from tour_pyserini.data.records import record_path
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_measures import is_answer_measure
from tour_pyserini.evaluation.gains_picture import check_picture
from tour_pyserini.evaluation.paired_tests import TESTS
from tour_pyserini.evaluation.tables import FORMATS
from tour_pyserini.support.files import check_output

ABOUT = "Measure runs side by side with ir-measures: means, costs, and what each run gains over a baseline."

EXAMPLE = """examples:
  python -m tour_pyserini.compare qrels/demo.trec runs/demo.*.trec --measures nDCG@10 R@100
  python -m tour_pyserini.compare qrels/demo.trec runs/demo.*.trec --baseline runs/demo.dense.trec --picture a.png"""


def compare_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.compare`."""
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.compare", description=ABOUT, epilog=EXAMPLE, formatter_class=Help
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
    """The measures that are of predicted answers, not of runs."""
    return [name for name in args.measures if is_answer_measure(name)]


def check_flags(args: argparse.Namespace) -> None:
    """Refuse what contradicts itself or lacks what it needs."""
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


def check_outputs(args: argparse.Namespace) -> None:
    """Find out before measuring that everything can be written, and over no input."""
    inputs = [args.qrels, *args.runs, *(args.predictions or ()), args.splits, args.topics, args.corpus]
    inputs += [record_path(run) for run in args.runs]
    outputs = [output for output in (args.output, args.picture) if output is not None]
    for output in outputs:
        check_output(output, inputs)
    if len(outputs) == 2 and os.path.realpath(args.output) == os.path.realpath(args.picture):
        raise TourError(f"--output and --picture are both {args.output}; choose two files.")
