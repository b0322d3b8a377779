"""Many passages matched with the answers of many questions, in several processes."""

import signal
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import Matcher, matcher_for

CHUNK = 256  # passages that go to a process together
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
        return (match for chunk in chunks for match in _matched(matcher, chunk))
    return _in_processes(chunks, answers, regex, processes)


def _chunks(candidates: Iterator[Candidate]) -> Iterator[list[Candidate]]:
    while chunk := list(islice(candidates, CHUNK)):
        yield chunk


def _matched(matcher: Matcher, chunk: Sequence[Candidate]) -> list[Match]:
    return [Match(docid, matcher.matches(text, questions)) for docid, text, questions in chunk]


def _in_processes(
    chunks: Iterator[list[Candidate]], answers: Sequence[Sequence[str]], regex: bool, processes: int
) -> Iterator[Match]:
    # Not forked: this process may have a Java machine in it, which does not survive that.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start, initargs=(answers, regex))
    waiting: deque[Future[list[Match]]] = deque()
    try:
        for chunk in chunks:
            waiting.append(pool.submit(_work, chunk))
            if len(waiting) >= processes * WAITING:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    except BrokenProcessPool as error:
        raise TourError("a process ended before its work was done; try again with one process.") from error
    finally:
        pool.shutdown(cancel_futures=True)


_matcher: Matcher  # of a process in the pool


def _start(answers: Sequence[Sequence[str]], regex: bool) -> None:
    global _matcher
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends the pool
    _matcher = matcher_for(answers, regex=regex)


def _work(chunk: list[Candidate]) -> list[Match]:
    return _matched(_matcher, chunk)
