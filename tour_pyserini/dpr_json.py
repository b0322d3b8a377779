# PYTHON_ARGCOMPLETE_OK
"""Convert a TREC run to retrieval results as JSON, and back.

The JSON has Pyserini's layout or DPR's. It has all questions of the topics, the passages' titles and texts,
and whether each passage contains an answer. Hits are in the order in which ir_measures and trec_eval evaluate them.

A run keeps the order of the JSON, which readers and Pyserini's evaluation use. Evaluators of runs sort by score:
where a question's scores do not decrease strictly (six decimals, single precision), its hits are scored n, ..., 2, 1.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.answers import add_answer_flags, check_matching, progress_bar, uses_patterns
from tour_pyserini.command import CommandParser, run
from tour_pyserini.data.json_results import LAYOUTS, read_dpr_json, write_dpr_json
from tour_pyserini.data.runs import is_strictly_decreasing, read_retrieved, scores_by_rank
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import passages_with_answers
from tour_pyserini.flags import check_names
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)

TAG = "tour_pyserini"


@dataclass(frozen=True, kw_only=True)
class JsonRequest:
    """Write a run as JSON with passages and answers; the fields are flags of `python -m tour_pyserini.dpr_json`.

    Attributes:
        run: the TREC run.
        topics: questions with answers.
        corpus: the passages.
        output: the JSON file.
        layout: `pyserini` or `dpr`.
        hits, regex, processes: as in `JudgeRequest`.
    """

    run: str
    topics: str
    corpus: str
    output: str
    layout: str = "pyserini"
    hits: int | None = None
    regex: str = "auto"
    processes: int = os.cpu_count() or 1

    def __post_init__(self) -> None:
        check_names(self)
        check_matching(hits=self.hits, processes=self.processes, regex=self.regex)
        if self.layout not in LAYOUTS:
            raise TourError(f"--layout must be one of {', '.join(LAYOUTS)}, not {self.layout!r}.")


class ConversionSummary(NamedTuple):
    """What was written: the file, questions, hits, questions with an answer (None: not known), and seconds."""

    output: Path
    questions: int
    hits: int
    answered: int | None
    seconds: float


def run_to_json(request: JsonRequest, *, progress: bool = False) -> ConversionSummary:
    """Write a run as JSON: every question, its passages with title and text, and which of them contain an answer."""
    started = time.perf_counter()
    check_output(request.output, [request.run, request.topics, request.corpus])
    regex = uses_patterns(request.topics, request.regex)
    questions = read_questions(request.topics)
    retrieved = read_retrieved(request.run, (question.qid for question in questions), hits=request.hits)
    texts = open_texts(request.corpus)
    docids = {qid: [hit.doc_id for hit in hits] for qid, hits in retrieved.items()}
    found = passages_with_answers(
        questions, docids, texts, regex=regex, processes=request.processes, watch=progress_bar(progress)
    )
    write_dpr_json(request.output, questions, retrieved, texts, found, layout=request.layout)
    answered = sum(bool(docids) for docids in found.values())
    hits = sum(map(len, docids.values()))
    return ConversionSummary(Path(request.output), len(questions), hits, answered, time.perf_counter() - started)


def json_to_run(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> ConversionSummary:
    """Write retrieval results, in either layout, as a TREC run in the same order."""
    started = time.perf_counter()
    check_output(output, [input])
    questions = lines = rescored = 0
    with atomic_write(output) as file:
        for qid, group in groupby(read_dpr_json(input), key=lambda hit: hit.query_id):
            hits = list(group)
            scores: Sequence[float] = [hit.score for hit in hits]
            if not is_strictly_decreasing(scores):
                scores, rescored = scores_by_rank(len(hits)), rescored + 1
            for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), start=1):
                file.write(f"{qid} Q0 {hit.doc_id} {rank} {score!r} {TAG}\n")
            questions, lines = questions + 1, lines + len(hits)
        if not questions:
            raise TourError(f"{input} holds no hits.")
    if rescored:
        log.warning(
            "%s: %d of %d questions are scored by rank, because their scores do not give the order",
            *(input, rescored, questions),
        )
    return ConversionSummary(Path(output), questions, lines, None, time.perf_counter() - started)


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
