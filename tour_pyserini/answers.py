# PYTHON_ARGCOMPLETE_OK
"""Judge passages by whether they contain an answer.

Answers are matched as DPR and Pyserini match them, and the judgements are TREC qrels.

With --runs, what the runs retrieved is judged: 1 with an answer, 0 without. Give all runs that are to be compared,
since a passage that is not judged counts as one without an answer. Without --runs the whole corpus is searched, and
only passages with an answer are written.

Every question of the topics has at least one line (`no-passage` with grade 0 where it has no other), so that
ir_measures averages over all questions: Success@k is the top-k retrieval accuracy of open-domain question answering.
"""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.cli.answer_flags import add_answer_flags
from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.pipeline.judging import JudgeRequest, judge

EXAMPLE = """example:
  python -m tour_pyserini.answers --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --runs runs/nq.dense.trec runs/nq.hard.trec --output qrels/nq.answers.trec
  ir_measures qrels/nq.answers.trec runs/nq.hard.trec Success@1 Success@20 Success@100"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    done = judge(JudgeRequest(**{**vars(args), "runs": args.runs or ()}), progress=True)
    sys.stderr.write(
        f"{done.output}: {done.judgements} judgements of {done.questions} questions, {done.answered} of them with an "
        f"answer ({'regular expressions' if done.regex else 'plain answers'}); {done.seconds:.1f} s\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("answers", description=__doc__, epilog=EXAMPLE)
    add_answer_flags(parser)
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="TREC runs to judge; the whole corpus if not given")
    parser.add_argument("--output", required=True, metavar="QRELS", help="the TREC qrels to write")
    return parser


if __name__ == "__main__":
    run(main)
