"""The flags of the compare command."""

import argparse

from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.evaluation.paired_tests import TESTS
from tour_pyserini.evaluation.tables import FORMATS
from tour_pyserini.pipeline.comparing import MEASURES

DESCRIPTION = "Measure runs side by side with ir-measures: means, costs, and differences from a baseline."

EXAMPLE = """examples:
  python -m tour_pyserini.compare qrels/demo.trec runs/demo.*.trec --measures nDCG@10 R@100
  python -m tour_pyserini.compare qrels/demo.trec runs/demo.*.trec --baseline runs/demo.dense.trec --picture a.png"""


def compare_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.compare`."""
    parser = CommandParser("compare", description=DESCRIPTION, epilog=EXAMPLE)
    parser.add_argument("qrels", help="judgements: TREC or BEIR")
    parser.add_argument("runs", nargs="+", help="TREC runs; the record beside a run gives its costs")
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), help="names of ir-measures")
    parser.add_argument("--format", choices=list(FORMATS), default="text", help="how tables are written")
    parser.add_argument("--output", metavar="FILE", help="write the report to this file instead of standard output")
    paired = parser.add_argument_group("comparison with a baseline")
    paired.add_argument("--baseline", metavar="RUN", help="one of the runs; every other run is compared with it")
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
    queries = parser.add_argument_group("queries and documents")
    queries.add_argument(
        "--splits",
        metavar="FILE",
        help="measure each split too: a file of overlap annotations, or of lines `qid<TAB>split`",
    )
    queries.add_argument(
        "--topics", metavar="FILE", help="texts of the queries; overlap annotations number them in this order"
    )
    queries.add_argument("--corpus", metavar="FILE", help="texts of the documents: BEIR corpus or Lucene index")
    return parser
