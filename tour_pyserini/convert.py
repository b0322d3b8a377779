# PYTHON_ARGCOMPLETE_OK
"""Convert judgements, runs, results and questions."""

import dataclasses
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tour_pyserini.answers import AnswerRequest, uses_patterns
from tour_pyserini.command import CommandParser, FlagParser, run
from tour_pyserini.data.json_results import LAYOUTS, read_dpr_json, write_dpr_json
from tour_pyserini.data.judgements import read_qrels, write_qrels
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import passages_with_answers
from tour_pyserini.evaluation.answer_measures import normalise
from tour_pyserini.flags import add_request_flags, option
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)

TAG = "tour_pyserini"


@dataclass(frozen=True, kw_only=True)
class JsonRequest(AnswerRequest):
    """Write a run as JSON with passages and answers; the fields are flags of `python -m tour_pyserini.convert json`.

    Attributes:
        run: the TREC run.
        topics: questions with answers.
        corpus: the passages.
        output: the JSON file.
        layout: `pyserini` or `dpr`.
        hits, regex, processes: as in `JudgeRequest`.
    """

    run: str = option(dataclasses.MISSING, "the TREC run")
    layout: str = option("pyserini", "whose JSON is written", choices=LAYOUTS)


class _ConversionSummary(NamedTuple):
    """The file that was written, and what it holds: counts by what was counted."""

    output: Path
    counts: Mapping[str, int]


def convert_qrels(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> _ConversionSummary:
    """Write judgements, in BEIR's or TREC's format, as TREC qrels."""
    qrels = read_qrels(input)
    write_qrels(qrels, output)
    counts = {"judgements": len(qrels), "queries": len({qrel.query_id for qrel in qrels})}
    return _ConversionSummary(Path(output), counts)


def run_to_json(request: JsonRequest, *, progress: bool = False) -> _ConversionSummary:
    """Write a run as JSON: every question, its passages with title and text, and which of them contain an answer.

    Hits are in the order in which ir_measures and trec_eval evaluate them.
    """
    check_output(request.output, [request.run, request.topics, request.corpus])
    regex = uses_patterns(request.topics, request.regex)
    questions = read_questions(request.topics)
    retrieved = read_rankings(request.run, (question.qid for question in questions), hits=request.hits)
    texts = open_texts(request.corpus)
    docids = {qid: [hit.doc_id for hit in hits] for qid, hits in retrieved.items()}
    processes = request.processes
    answering = passages_with_answers(questions, texts, docids, regex=regex, processes=processes, progress=progress)
    found = {qid: set(passages) for qid, passages in answering.items()}
    write_dpr_json(request.output, questions, retrieved, texts, found, layout=request.layout)
    counts = {"questions": len(questions), "with an answer": sum(map(bool, found.values()))}
    return _ConversionSummary(Path(request.output), counts | {"hits": sum(map(len, docids.values()))})


def json_to_run(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> _ConversionSummary:
    """Write retrieval results, in either layout, as a TREC run in the same order.

    Evaluators of runs sort by score: where a question's scores do not decrease strictly (six decimals, single
    precision), its hits are scored n, ..., 2, 1.
    """
    check_output(output, [input])
    questions = lines = rescored = 0
    with atomic_write(output) as file:
        for qid, group in groupby(read_dpr_json(input), key=lambda hit: hit.query_id):
            hits = list(group)
            scores = [hit.score for hit in hits]
            if (np.diff(np.array([round(score, 6) for score in scores], dtype=np.float32)) >= 0).any():
                scores, rescored = [float(rank) for rank in range(len(hits), 0, -1)], rescored + 1
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
    return _ConversionSummary(Path(output), {"questions": questions, "hits": lines})


def split_by_overlap(topics: str, train: Sequence[str], output: str | os.PathLike[str]) -> _ConversionSummary:
    """Put test questions into splits by what they share with training questions.

    Texts are equal if they are the same after SQuAD's normalisation. `question_overlap`: the question is a training
    question. `answer_overlap_only`: it is not, but one of its answers answers a training question. `no_overlap`:
    neither. The published annotations, made by people, also count paraphrases as the same question.

    Args:
        topics: test questions with answers, in any format of topics.
        train: files of training questions with answers.
        output: a file of lines `qid<TAB>split`, for `CompareRequest(splits=...)`.
    """
    check_output(output, [topics, *train])
    training = [question for path in train for question in read_questions(path)]
    # "The" and "A" both become empty, but have nothing in common.
    texts = {normalise(question.text) for question in training} - {""}
    answers = {normalise(answer) for question in training for answer in question.answers} - {""}
    splits = {}
    for question in read_questions(topics):
        if normalise(question.text) in texts:
            splits[question.qid] = "question_overlap"
        elif answers.isdisjoint(map(normalise, question.answers)):
            splits[question.qid] = "no_overlap"
        else:
            splits[question.qid] = "answer_overlap_only"
    with atomic_write(output) as file:
        file.write("".join(f"{qid}\t{split}\n" for qid, split in splits.items()))
    counts = {"questions": len(splits), "training questions": len(training)}
    return _ConversionSummary(Path(output), counts | dict(sorted(Counter(splits.values()).items())))


EXAMPLE = """examples:
  python -m tour_pyserini.convert qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  python -m tour_pyserini.convert json --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --run runs/nq.hard.trec --output nq.hard.json
  python -m pyserini.eval.evaluate_dpr_retrieval --retrieval nq.hard.json --topk 1 20 100
  python -m tour_pyserini.convert run --input nq.hard.json --output runs/nq.hard.trec
  python -m tour_pyserini.convert splits --topics nq/test.jsonl --train nq/dev.jsonl --output nq.splits.tsv"""

_KINDS = {
    "qrels": "TREC qrels from judgements, BEIR's or TREC's",
    "json": "retrieval results as JSON, in Pyserini's layout or DPR's, from a TREC run: passages with answers",
    "run": "a TREC run from retrieval results as JSON, in either layout, in the same order",
    "splits": "splits of test questions by what they share with training questions, for compare --splits",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = vars(_parser().parse_args(argv))
    kind = args.pop("kind")
    if kind == "json":
        done = run_to_json(JsonRequest.from_flags(args), progress=True)
    else:
        functions: dict[str, Callable[..., _ConversionSummary]] = {"qrels": convert_qrels, "run": json_to_run}
        done = functions.get(kind, split_by_overlap)(**args)
    sys.stderr.write(f"{done.output}: {', '.join(f'{count} {what}' for what, count in done.counts.items())}\n")


def _parser() -> CommandParser:
    parser = CommandParser("convert", description=__doc__, epilog=EXAMPLE)
    kinds = parser.add_subparsers(dest="kind", required=True, parser_class=FlagParser)
    add = {name: kinds.add_parser(name, help=text, description=text) for name, text in _KINDS.items()}
    for name, text in (("qrels", "judgements: a BEIR .tsv file or TREC qrels"), ("run", "the JSON")):
        add[name].add_argument("--input", required=True, metavar="FILE", help=text)
    add_request_flags(add["json"], JsonRequest)
    add["splits"].add_argument("--topics", required=True, help="test questions with answers, in any format of topics")
    add["splits"].add_argument(
        "--train", nargs="+", required=True, metavar="FILE", help="training questions with answers, in any format"
    )
    for name in ("qrels", "run", "splits"):
        add[name].add_argument("--output", required=True, metavar="FILE", help="the file to write")
    return parser


if __name__ == "__main__":
    run(main)
