# PYTHON_ARGCOMPLETE_OK
"""Judge passages by whether they contain an answer.

Answers are matched as DPR and Pyserini match them, and the judgements are TREC qrels.

With --runs, what the runs retrieved is judged: 1 with an answer, 0 without. Give all runs that are to be compared,
since a passage that is not judged counts as one without an answer. Without --runs the whole corpus is searched, and
only passages with an answer are written.

Every question of the topics has at least one line (`no-passage` with grade 0 where it has no other), so that
ir_measures averages over all questions: Success@k is the top-k retrieval accuracy of open-domain question answering.
"""

import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.command import run
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answer_qrels, answers_are_patterns, passages_with_answers
from tour_pyserini.flags import Request, option, request_parser
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class AnswerRequest(Request):
    """Questions, passages, and how answers are matched with passages."""

    topics: str = option(MISSING, "questions with answers: a file of DPR's or SQuAD's, JSON lines, a Pyserini name")
    corpus: str = option(MISSING, "passages: BEIR corpus.jsonl or Lucene index")
    output: str = option(MISSING, "the file to write")
    hits: int | None = option(None, "use only the N best hits of each question (default: all)", count=True)
    regex: str = option(
        "auto",
        "whether answers are regular expressions; auto: yes if the topics are named curated or trec-test",
        choices=("auto", "on", "off"),
    )
    processes: int = option(os.cpu_count() or 1, "number of processes (default: one per core)", count=True)


@dataclass(frozen=True, kw_only=True)
class AnswersRequest(AnswerRequest):
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

    runs: Sequence[str | os.PathLike[str]] = option((), "TREC runs to judge; the whole corpus if not given")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hits is not None and not self.runs:
            raise TourError("--hits limits what runs retrieved; give --runs, or leave it out.")


class _JudgeSummary(NamedTuple):
    """What was judged: the file, its lines, questions, questions with an answer, kind of answers, and seconds."""

    output: Path
    judgements: int
    questions: int
    answered: int
    regex: bool
    seconds: float


def judge(request: AnswersRequest, *, progress: bool = False) -> _JudgeSummary:
    """Judge passages by their answers and write TREC qrels.

    Args:
        request: the questions, the passages, and what to write.
        progress: whether a bar is shown on a terminal.
    """
    started = time.perf_counter()
    check_output(request.output, [request.topics, request.corpus, *request.runs])
    regex = uses_patterns(request.topics, request.regex)
    questions = read_questions(request.topics)
    # Runs first: a mistake in one of them is reported before a large corpus is opened.
    retrieved: dict[str, dict[str, None]] = {question.qid: {} for question in questions}
    for path in request.runs:
        for qid, hits in read_rankings(path, list(retrieved), hits=request.hits).items():
            retrieved[qid].update((hit.doc_id, None) for hit in hits)
    lists = {qid: list(docids) for qid, docids in retrieved.items()} if request.runs else None
    texts, processes = open_texts(request.corpus), request.processes
    lines, answered = 0, set()
    with atomic_write(request.output) as file:
        found = passages_with_answers(questions, texts, lists, regex=regex, processes=processes, progress=progress)
        for qrel in answer_qrels(questions, found, lists):
            file.write(f"{qrel.query_id} 0 {qrel.doc_id} {qrel.relevance}\n")
            lines += 1
            if qrel.relevance:
                answered.add(qrel.query_id)
    seconds = time.perf_counter() - started
    return _JudgeSummary(Path(request.output), lines, len(questions), len(answered), regex, seconds)


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


EXAMPLE = """example:
  python -m tour_pyserini.answers --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --runs runs/nq.dense.trec runs/nq.hard.trec --output qrels/nq.answers.trec
  ir_measures qrels/nq.answers.trec runs/nq.hard.trec Success@1 Success@20 Success@100"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("answers", AnswersRequest, description=str(__doc__), epilog=EXAMPLE)
    done = judge(AnswersRequest.from_flags(vars(parser.parse_args(argv))), progress=True)
    sys.stderr.write(
        f"{done.output}: {done.judgements} judgements of {done.questions} questions, {done.answered} of them with an "
        f"answer ({'regular expressions' if done.regex else 'plain answers'}); {done.seconds:.1f} s\n"
    )


if __name__ == "__main__":
    run(main)
