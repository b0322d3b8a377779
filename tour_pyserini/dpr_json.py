# PYTHON_ARGCOMPLETE_OK
"""Convert a TREC run to retrieval results as JSON, and back.

The JSON has Pyserini's layout or DPR's. It has all questions of the topics, the passages' titles and texts,
and whether each passage contains an answer. Hits are in the order in which ir_measures and trec_eval evaluate them.

A run keeps the order of the JSON, which readers and Pyserini's evaluation use. Evaluators of runs sort by score:
where a question's scores do not decrease strictly (six decimals, single precision), its hits are scored n, ..., 2, 1.
"""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.cli.answer_flags import add_answer_flags
from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.data.retrieval_json import LAYOUTS
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.converting import JsonRequest, json_to_run, run_to_json

EXAMPLE = """examples:
  python -m tour_pyserini.dpr_json --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --run runs/nq.hard.trec --output nq.hard.json
  python -m pyserini.eval.evaluate_dpr_retrieval --retrieval nq.hard.json --topk 1 20 100
  python -m tour_pyserini.dpr_json --input nq.hard.json --output runs/nq.hard.trec"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = vars(_parser().parse_args(argv))
    source = args.pop("input")
    if source is not None:
        if any(args[name] is not None for name in ("run", "topics", "corpus", "hits")):
            raise TourError("--input converts JSON to a run and needs only --output; leave the other flags out.")
        done = json_to_run(source, args["output"])
    else:
        for name in ("run", "topics", "corpus"):
            if args[name] is None:
                raise TourError(
                    f"--{name} is missing: a run needs --run, --topics and --corpus, and JSON needs --input."
                )
        done = run_to_json(JsonRequest(**args), progress=True)
    answered = "" if done.answered is None else f"{done.answered} of them with an answer, "
    sys.stderr.write(f"{done.output}: {done.questions} questions, {answered}{done.hits} hits; {done.seconds:.1f} s\n")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("dpr-json", description=__doc__, epilog=EXAMPLE)
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="the JSON to write, or with --input the TREC run"
    )
    to_json = parser.add_argument_group("from a run")
    to_json.add_argument("--run", metavar="RUN", help="the TREC run")
    add_answer_flags(to_json, required=False)
    to_json.add_argument("--layout", choices=list(LAYOUTS), default="pyserini", help="whose JSON is written")
    to_run = parser.add_argument_group("from JSON")
    to_run.add_argument("--input", metavar="FILE", help="retrieval results in either layout")
    return parser


if __name__ == "__main__":
    run(main)
