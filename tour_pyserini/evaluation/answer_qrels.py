"""Judgements from answers: a passage is relevant if its text contains an answer."""

import signal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import (
    Matcher,
    all_answer_texts,
    answer_text,
    matcher_for,
    warn_about_unusable_answers,
)
from tour_pyserini.support.processes import end_with_parent, kill_workers

if TYPE_CHECKING:
    from ir_measures import Qrel

# Docid in the single judgement of a question without any: measures average over judged questions only.
NO_PASSAGE = "no-passage"
CHUNK = 256  # passages that are sent to a process together
WAITING = 4  # chunks per process that are read ahead, so that a large corpus is never in memory


class Candidate(NamedTuple):
    """A passage and the positions of the questions to match it with; None means all of them."""

    docid: str
    text: str
    questions: Collection[int] | None = None


class Match(NamedTuple):
    """A passage and the positions of the questions that it answers."""

    docid: str
    questions: set[int]


Watch = Callable[[Iterable[Candidate], int], Iterable[Candidate]]
"""Shows progress: takes passages and their number, and yields the same passages."""


def _unwatched(candidates: Iterable[Candidate], total: int) -> Iterable[Candidate]:
    return candidates


def passages_with_answers(
    questions: Sequence[Question],
    retrieved: Mapping[str, Iterable[str]],
    texts: Mapping[str, str],
    *,
    regex: bool = False,
    processes: int = 1,
    watch: Watch = _unwatched,
) -> dict[str, set[str]]:
    """Which of the retrieved passages contain an answer.

    Args:
        questions: the questions.
        retrieved: docids by question id; a passage that several questions retrieved is read and tokenised once.
        texts: docid to passage.
        regex: whether answers are regular expressions.
        processes: how many processes work; the result does not depend on it.
        watch: shows progress.

    Returns:
        By question id, for every question, the docids of passages that contain an answer.
    """
    warn_about_unusable_answers(questions, regex=regex)
    retrieved_by: dict[str, set[int]] = {}
    for position, question in enumerate(questions):
        for docid in retrieved.get(question.qid, ()):
            retrieved_by.setdefault(docid, set()).add(position)
    candidates = (Candidate(docid, answer_text(texts[docid]), by) for docid, by in retrieved_by.items())
    relevant: dict[str, set[str]] = {question.qid: set() for question in questions}
    answers = [question.answers for question in questions]
    for match in match_passages(watch(candidates, len(retrieved_by)), answers, regex=regex, processes=processes):
        for position in match.questions:
            relevant[questions[position].qid].add(match.docid)
    return relevant


def retrieved_qrels(
    questions: Sequence[Question], retrieved: Mapping[str, Sequence[str]], relevant: Mapping[str, set[str]]
) -> Iterator["Qrel"]:
    """Judgements of retrieved passages: 1 with an answer, 0 without.

    Args:
        questions: the questions.
        retrieved: docids by question id.
        relevant: what `passages_with_answers` returned for them.
    """
    from ir_measures import Qrel

    for question in questions:
        docids = retrieved.get(question.qid) or [NO_PASSAGE]
        yield from (Qrel(question.qid, docid, int(docid in relevant[question.qid])) for docid in docids)


def corpus_qrels(
    questions: Sequence[Question],
    texts: Mapping[str, str],
    *,
    regex: bool = False,
    processes: int = 1,
    watch: Watch = _unwatched,
) -> Iterator["Qrel"]:
    """Judgements of a whole corpus: 1 for every passage with an answer, in the order of the corpus; no others.

    A question that no passage answers has one judgement of 0.
    """
    from ir_measures import Qrel

    warn_about_unusable_answers(questions, regex=regex)
    candidates = (Candidate(docid, text) for docid, text in all_answer_texts(texts))
    relevant: list[list[str]] = [[] for _ in questions]
    answers = [question.answers for question in questions]
    for match in match_passages(watch(candidates, len(texts)), answers, regex=regex, processes=processes):
        for position in match.questions:
            relevant[position].append(match.docid)
    for question, docids in zip(questions, relevant, strict=True):
        yield from (Qrel(question.qid, docid, 1) for docid in docids)
        if not docids:
            yield Qrel(question.qid, NO_PASSAGE, 0)


def match_passages(
    candidates: Iterable[Candidate], answers: Sequence[Sequence[str]], *, regex: bool = False, processes: int = 1
) -> Iterator[Match]:
    """Match passages with answers, each passage once.

    Args:
        candidates: the passages, read as they are needed.
        answers: the answers of each question.
        regex: whether answers are regular expressions.
        processes: how many processes work; the result does not depend on it.

    Returns:
        A match per passage, in their order.
    """
    if processes < 1:
        raise TourError(f"there must be at least 1 process, not {processes}.")
    chunks = _chunks(iter(candidates))
    first = list(islice(chunks, 2))
    chunks = chain(first, chunks)
    if processes == 1 or len(first) < 2:  # one chunk is done before a process has started
        matcher = matcher_for(answers, regex=regex)
        return (match for chunk in chunks for match in _match_chunk(matcher, chunk))
    return _match_in_processes(chunks, answers, regex, processes)


def _chunks(candidates: Iterator[Candidate]) -> Iterator[list[Candidate]]:
    while chunk := list(islice(candidates, CHUNK)):
        yield chunk


def _match_chunk(matcher: Matcher, chunk: Sequence[Candidate]) -> list[Match]:
    return [Match(docid, matcher.matches(text, questions)) for docid, text, questions in chunk]


def _match_in_processes(
    chunks: Iterator[list[Candidate]], answers: Sequence[Sequence[str]], regex: bool, processes: int
) -> Iterator[Match]:
    # Not forked: a Java machine in this process would not survive it.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker, initargs=(answers, regex))
    waiting: deque[Future[list[Match]]] = deque()
    try:
        for chunk in chunks:
            waiting.append(pool.submit(_match_in_worker, chunk))
            if len(waiting) >= processes * WAITING:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    except BrokenProcessPool as error:
        raise TourError("a worker process ended before its work was done; try again with one process.") from error
    except BaseException:  # a signal, or a pattern that takes too long: what the others do is of no use
        kill_workers(pool)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_matcher: Matcher  # set in each worker process


def _start_worker(answers: Sequence[Sequence[str]], regex: bool) -> None:
    global _matcher
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which then ends the pool
    _matcher = matcher_for(answers, regex=regex)


def _match_in_worker(chunk: list[Candidate]) -> list[Match]:
    return _match_chunk(_matcher, chunk)
