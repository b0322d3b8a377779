"""Convert a TREC run to retrieval results as JSON (Pyserini's layout or DPR's), and such JSON to a TREC run.

JSON has all questions of the topics, the passages' titles and texts, and whether each passage contains an answer.
Hits are in the order in which ir_measures and trec_eval evaluate them.

A run keeps the order of the JSON, which readers and Pyserini's evaluation use. Evaluators of runs sort by score:
where a question's scores do not decrease strictly (six decimals, single precision), its hits are scored n, ..., 2, 1.
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from itertools import groupby

from tour_pyserini.cli.answer_flags import add_answer_flags, regex_from, shown
from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import Help
from tour_pyserini.data.retrieval_json import LAYOUTS, read_dpr_json, write_dpr_json
from tour_pyserini.data.runs import is_strictly_decreasing, read_retrieved, scores_by_rank
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_qrels import passages_with_answers
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)

TAG = "tour_pyserini"
EXAMPLE = """examples:
  python -m tour_pyserini.dpr_json --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --run runs/nq.hard.trec --output nq.hard.json
  python -m pyserini.eval.evaluate_dpr_retrieval --retrieval nq.hard.json --topk 1 20 100
  python -m tour_pyserini.dpr_json --input nq.hard.json --output runs/nq.hard.trec"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    check_output(args.output, [args.input, args.run, args.topics, args.corpus])
    started = time.perf_counter()
    done = _to_json(args) if args.input is None else _to_run(args)
    sys.stderr.write(f"{args.output}: {done}; {time.perf_counter() - started:.1f} s\n")


def _to_json(args: argparse.Namespace) -> str:
    for name in ("run", "topics", "corpus"):
        if getattr(args, name) is None:
            raise TourError(f"--{name} is missing: a run needs --run, --topics and --corpus, and JSON needs --input.")
    regex = regex_from(args)
    questions = read_questions(args.topics)
    retrieved = read_retrieved(args.run, (question.qid for question in questions), hits=args.hits)
    texts = open_texts(args.corpus)
    docids = {qid: [hit.doc_id for hit in hits] for qid, hits in retrieved.items()}
    found = passages_with_answers(questions, docids, texts, regex=regex, processes=args.processes, watch=shown)
    write_dpr_json(args.output, questions, retrieved, texts, found, layout=args.layout)
    answered = sum(bool(docids) for docids in found.values())
    return f"{len(questions)} questions, {answered} of them with an answer, {sum(map(len, docids.values()))} hits"


def _to_run(args: argparse.Namespace) -> str:
    if any(getattr(args, name) is not None for name in ("run", "topics", "corpus", "hits")):
        raise TourError("--input converts JSON to a run and needs no more than --output; leave the other flags out.")
    questions = lines = rescored = 0
    with atomic_write(args.output) as file:
        for qid, group in groupby(read_dpr_json(args.input), key=lambda hit: hit.query_id):
            hits = list(group)
            scores = [hit.score for hit in hits]
            if not is_strictly_decreasing(scores):
                scores, rescored = scores_by_rank(len(hits)), rescored + 1
            for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), start=1):
                file.write(f"{qid} Q0 {hit.doc_id} {rank} {score!r} {TAG}\n")
            questions, lines = questions + 1, lines + len(hits)
        if not questions:
            raise TourError(f"{args.input} holds no hits.")
    if rescored:
        log.warning(
            "%s: %d of %d questions are scored by rank: scores do not say the order", args.input, rescored, questions
        )
    return f"{questions} questions, {lines} hits"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.dpr_json", description=__doc__, epilog=EXAMPLE, formatter_class=Help
    )
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
