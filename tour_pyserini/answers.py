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
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tour_pyserini.command import CommandParser, run
from tour_pyserini.data.runs import read_retrieved
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import (
    Candidate,
    Watch,
    answers_are_patterns,
    corpus_qrels,
    passages_with_answers,
    retrieved_qrels,
)
from tour_pyserini.flags import check_names
from tour_pyserini.support.files import atomic_write, check_output

if TYPE_CHECKING:
    from ir_measures import Qrel

log = logging.getLogger(__name__)

REGEX = ("auto", "on", "off")


@dataclass(frozen=True, kw_only=True)
class JudgeRequest:
    """Judge passages by whether they contain an answer; the fields are flags of `python -m tour_pyserini.answers`.

    Attributes:
        topics: questions with answers.
        corpus: the passages.
        output: the qrels file.
        runs: judge what these runs retrieved; if there are none, the whole corpus.
        hits: judge only the first hits of a run.
        regex: whether answers are regular expressions: `on`, `off`, or `auto`, by the name of the topics.
        processes: processes that match passages.
    """

    topics: str
    corpus: str
    output: str
    runs: Sequence[str | os.PathLike[str]] = ()
    hits: int | None = None
    regex: str = "auto"
    processes: int = os.cpu_count() or 1

    def __post_init__(self) -> None:
        check_names(self)
        check_matching(hits=self.hits, processes=self.processes, regex=self.regex)
        if self.hits is not None and not self.runs:
            raise TourError("--hits limits what runs retrieved; give --runs, or leave it out.")


class JudgeSummary(NamedTuple):
    """What was judged: the file, its lines, questions, questions with an answer, kind of answers, and seconds."""

    output: Path
    judgements: int
    questions: int
    answered: int
    regex: bool
    seconds: float


def judge(request: JudgeRequest, *, progress: bool = False) -> JudgeSummary:
    """Judge passages by their answers and write TREC qrels.

    Args:
        request: the questions, the passages, and what to write.
        progress: whether a bar is shown on a terminal.
    """
    started = time.perf_counter()
    check_output(request.output, [request.topics, request.corpus, *request.runs])
    regex = uses_patterns(request.topics, request.regex)
    questions = read_questions(request.topics)
    lines, answered = 0, set()
    with atomic_write(request.output) as file:
        for qrel in _qrels(request, questions, regex, progress_bar(progress)):
            file.write(f"{qrel.query_id} 0 {qrel.doc_id} {qrel.relevance}\n")
            lines += 1
            if qrel.relevance:
                answered.add(qrel.query_id)
    seconds = time.perf_counter() - started
    return JudgeSummary(Path(request.output), lines, len(questions), len(answered), regex, seconds)


def check_matching(*, hits: int | None, processes: int, regex: str) -> None:
    """Refuse numbers below 1 and unknown kinds of answers."""
    for name, number in (("processes", processes), ("hits", hits)):
        if number is not None and number < 1:
            raise TourError(f"--{name} must be at least 1, not {number}.")
    if regex not in REGEX:
        raise TourError(f"--regex must be one of {', '.join(REGEX)}, not {regex!r}.")


def uses_patterns(topics: str, regex: str = "auto") -> bool:
    """Whether answers are regular expressions; `auto` decides by the name of the topics, with a warning."""
    if regex != "auto":
        return regex == "on"
    patterns = answers_are_patterns(topics)
    if patterns:
        log.warning(
            "the answers of %s are read as regular expressions, because of its name; `answers --regex off` reads them "
            "as text",
            topics,
        )
    return patterns


def _qrels(request: JudgeRequest, questions: Sequence[Question], regex: bool, watch: Watch) -> Iterator["Qrel"]:
    # Runs first: a mistake in one of them is reported before a large corpus is opened.
    retrieved = _retrieved(request, questions)
    texts = open_texts(request.corpus)
    if not request.runs:
        return corpus_qrels(questions, texts, regex=regex, processes=request.processes, watch=watch)
    found = passages_with_answers(questions, retrieved, texts, regex=regex, processes=request.processes, watch=watch)
    return retrieved_qrels(questions, retrieved, found)


def _retrieved(request: JudgeRequest, questions: Sequence[Question]) -> Mapping[str, list[str]]:
    """The docids that any of the runs has, by question, each once."""
    ids = [question.qid for question in questions]
    docids: dict[str, dict[str, None]] = {qid: {} for qid in ids}
    for path in request.runs:
        for qid, hits in read_retrieved(path, ids, hits=request.hits).items():
            docids[qid].update((hit.doc_id, None) for hit in hits)
    return {qid: list(hits) for qid, hits in docids.items()}


def progress_bar(progress: bool) -> Watch:
    """Counts passages on a terminal while they are matched; on no terminal, or without `progress`, shows nothing."""
    from tqdm import tqdm

    def watch(candidates: Iterable[Candidate], total: int) -> Iterable[Candidate]:
        hidden = None if progress else True
        return tqdm(candidates, total=total, unit="passage", desc="matching", disable=hidden)

    return watch


def add_answer_flags(parser: argparse._ActionsContainer, *, required: bool = True) -> None:
    """Add the flags for questions, passages, and how answers are matched with passages."""
    parser.add_argument(
        "--topics",
        required=required,
        metavar="TOPICS",
        help="questions with answers: DPR's .tsv, .txt or .json, JSON lines, SQuAD's .json, or a Pyserini name",
    )
    parser.add_argument(
        "--corpus", required=required, metavar="CORPUS", help="passages: BEIR corpus.jsonl or Lucene index"
    )
    parser.add_argument(
        "--regex",
        choices=REGEX,
        default="auto",
        help="whether answers are regular expressions; auto: yes if the topics are named curated or trec-test",
    )
    parser.add_argument(
        "--hits", type=int, metavar="N", help="use only the N best hits of each question (default: all)"
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default: one per core)",
    )


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
