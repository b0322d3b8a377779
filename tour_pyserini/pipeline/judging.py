"""Judging passages by their answers: from a request to a qrels file."""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
from tour_pyserini.pipeline.request import check_names
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
