"""Whether passages contain answers to questions, as DPR and Pyserini decide it, and judgements from that."""

import contextlib
import ctypes
import logging
import os
import re
import signal
import sys
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, lru_cache
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import regex as timed_re

from tour_pyserini.data.texts import BeirTexts, one_line_parts
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError

if TYPE_CHECKING:
    from ir_measures import Qrel

_PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>


def end_with_parent() -> None:
    """Called first in a worker process: if its parent ends, even by SIGKILL, the worker ends too.

    A thread waits until the parent's end of a pipe is closed, which works on every system. Linux also sends a signal,
    which needs no turn of the Python interpreter.
    """
    parent = parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def kill_workers(pool: ProcessPoolExecutor) -> None:
    """End the workers of a pool at once; its `shutdown` would wait for what they are doing."""
    for worker in list((pool._processes or {}).values()):  # from Python 3.14 on, this is `pool.kill_workers()`
        worker.kill()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


log = logging.getLogger(__name__)

NO_PASSAGE = "no-passage"
"""Docid in the single judgement of a question without any: measures average over judged questions only."""
CHUNK = 256  # passages that are sent to a process together
WAITING = 4  # chunks per process that are read ahead, so that a large corpus is never in memory
SECONDS = 5.0
"""Time limit of matching one text with one regular expression: `(a+)+$` would take years on forty letters."""

# Only CuratedTREC has regular expressions as answers: dpr-curated-test, curatedtrec-test.json, DPR's trec-test.qa.csv.
# In other names `trec` stands for a file format.
_NAMES_OF_PATTERNS = re.compile(r".*curated.*|trec-test(\..*)?", re.IGNORECASE | re.DOTALL)


class Matcher(Protocol):
    """Finds the questions that a text answers."""

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        """Positions of the questions that have an answer in the text; `among` limits which questions are tried."""


def matcher_for(answers: Sequence[Sequence[str]], *, regex: bool = False) -> Matcher:
    """A matcher for the answers of each question; with `regex`, answers are regular expressions.

    Example:
        >>> matcher_for([["Linda Davis"], ["1901", "in 1902"]]).matches("In 1901, LINDA  DAVIS sang.")
        {0, 1}
    """
    return PatternMatcher(answers) if regex else TokenMatcher(answers)


class TokenMatcher:
    """Matches answers as sequences of tokens: Unicode normal form D, DPR's tokenizer, case ignored.

    All answers are kept in one tree of tokens, so that a text is read once for any number of questions.
    As in DPR, an answer without tokens, such as an empty one, matches every text.
    """

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self._root = _Node()
        for question, gold in enumerate(answers):
            for answer in gold:
                node = self._root
                for token in _tokens(answer):
                    node = node.children.setdefault(token, _Node())
                node.questions.append(question)

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        """Positions of the questions that have an answer in the text; `among` limits which questions are tried."""
        matched = set(self._root.questions)
        tokens = _tokens(text)
        for start in range(len(tokens)):
            node: _Node | None = self._root
            for position in range(start, len(tokens)):
                node = node.children.get(tokens[position]) if node else None
                if node is None:
                    break
                matched.update(node.questions)
        return matched if among is None else matched.intersection(among)


class PatternMatcher:
    r"""Matches answers as regular expressions, in Unicode normal form D, case ignored.

    They are those of the package `regex`, which takes accents of normal form D for letters (`\w`, `\b`); Python's
    own, which DPR uses, does not, but has no time limit.
    """

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self._patterns = [_patterns(gold) for gold in answers]

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        """Positions of the questions that have an answer in the text; `among` limits which questions are tried."""
        text = _normal(text)
        questions = range(len(self._patterns)) if among is None else among
        return {question for question in questions if any(_found(p, text) for p in self._patterns[question])}


def answers_are_patterns(topics: str) -> bool:
    """Whether the name of a topics file, or of Pyserini's topics, says that its answers are regular expressions.

    Example:
        >>> answers_are_patterns("dpr-curated-test"), answers_are_patterns("topics.nq.trec")
        (True, False)
    """
    return _NAMES_OF_PATTERNS.fullmatch(PurePath(topics).name) is not None


def pattern_match(predicted: str, gold: Collection[str]) -> float:
    """1 if one of the regular expressions matches at the beginning of the prediction, as in DrQA and DensePhrases.

    Both are in Unicode normal form D; case is ignored.

    Example:
        >>> pattern_match("1969 or so", ["19[0-9]{2}"]), pattern_match("in 1969", ["19[0-9]{2}"])
        (1.0, 0.0)
    """
    text = _normal(predicted.strip())
    return float(any(_found(pattern, text, at_begin=True) for pattern in _patterns(gold)))


def warn_about_unusable_answers(questions: Sequence[Question], *, regex: bool = False) -> None:
    """Log a warning for each answer that matches no text, or every text."""
    problem = "is not a valid regular expression and never matches" if regex else "has no token and matches every text"
    for question in questions:
        for answer in question.answers:
            if (_pattern(answer) is None) if regex else not _tokens(answer):
                log.warning(
                    "the answer %.200r of question %s %s, as in DPR's evaluation", answer, question.qid, problem
                )


def answer_text(passage: str) -> str:
    """The part of a passage in which answers are looked for: its text without the title, on one line."""
    return one_line_parts(passage)[1]


def all_answer_texts(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Docid and `answer_text` of every document of a corpus, in its order."""
    if isinstance(texts, BeirTexts):  # reads the file from beginning to end, without look-ups
        documents = ((document.docid, document.text.replace("\n", " ")) for document in texts.records())
    else:
        documents = ((docid, answer_text(passage)) for docid, passage in texts.items())
    for docid, text in documents:
        if docid.split() != [docid]:
            raise TourError(f"{texts!r} has white space in the document id {docid!r}; a qrels file cannot hold it.")
        yield docid, text


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


class _Node:
    __slots__ = ("children", "questions")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.questions: list[int] = []


def _normal(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@cache
def _tokenizer() -> Any:
    from pyserini.eval.evaluate_dpr_retrieval import SimpleTokenizer

    return SimpleTokenizer()


def _tokens(text: str) -> list[str]:
    return _tokenizer().tokenize(_normal(text)).words(uncased=True)


def _patterns(answers: Collection[str]) -> list["timed_re.Pattern[str]"]:
    """The answers that are valid regular expressions, compiled."""
    return [pattern for answer in answers if (pattern := _pattern(answer))]


@lru_cache(maxsize=4096)
def _pattern(answer: str) -> "timed_re.Pattern[str] | None":
    try:
        return timed_re.compile(_normal(answer), timed_re.IGNORECASE | timed_re.MULTILINE)
    except (timed_re.error, OverflowError, RecursionError):
        return None


def _found(pattern: "timed_re.Pattern[str]", text: str, *, at_begin: bool = False) -> bool:
    """Whether a pattern matches anywhere in a text, or at its beginning."""
    try:
        return (pattern.match if at_begin else pattern.search)(text, timeout=SECONDS) is not None
    except TimeoutError:
        raise TourError(
            f"the regular expression {pattern.pattern!r:.200} took more than {SECONDS:g} s on one text; "
            "write it without repeats inside repeats, or use --regex off."
        ) from None
