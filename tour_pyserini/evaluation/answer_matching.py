"""Answers to questions: which passages contain them, as DPR and Pyserini decide it, and EM and F1 of predicted ones."""

import logging
import os
import re
import signal
import string
import threading
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, lru_cache, partial
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import regex as timed_re

from tour_pyserini.data.texts import BeirTexts, one_line_parts
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError

if TYPE_CHECKING:
    from ir_measures import Qrel

log = logging.getLogger(__name__)

NO_PASSAGE = "no-passage"
"""Docid in the single judgement of a question without any: measures average over judged questions only."""
CHUNK = 256  # passages that are sent to a process together
WAITING = 4  # chunks per process that are read ahead, so that a large corpus is never in memory
SECONDS = 5.0
"""Time limit of matching one text with one regular expression: `(a+)+$` would take years on forty letters."""

_Candidate = tuple[str, str, Collection[int] | None]
"""A docid, its text, and the positions of the questions to match it with; None means all of them."""

# Only CuratedTREC has regular expressions as answers: dpr-curated-test, curatedtrec-test.json, DPR's trec-test.qa.csv.
# In other names `trec` stands for a file format.
_NAMES_OF_PATTERNS = re.compile(r".*curated.*|trec-test(\..*)?", re.IGNORECASE | re.DOTALL)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class _TokenMatcher:
    """Matches answers as sequences of tokens: Unicode normal form D, DPR's tokenizer, case ignored.

    All answers are kept in one tree of tokens, so that a text is read once for any number of questions.
    As in DPR, an answer without tokens, such as an empty one, matches every text.
    """

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self._root: dict[str | None, Any] = {}  # a node: its children by token; by None the questions that end there
        for question, gold in enumerate(answers):
            for answer in gold:
                node = self._root
                for token in _tokens(answer):
                    node = node.setdefault(token, {})
                node.setdefault(None, []).append(question)

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        matched = set(self._root.get(None, ()))
        tokens = _tokens(text)
        for start in range(len(tokens)):
            node: Any = self._root
            for position in range(start, len(tokens)):
                node = node.get(tokens[position])
                if node is None:
                    break
                matched.update(node.get(None, ()))
        return matched if among is None else matched.intersection(among)


class _PatternMatcher:
    r"""Matches answers as regular expressions, in Unicode normal form D, case ignored.

    They are those of the package `regex`, which takes accents of normal form D for letters (`\w`, `\b`); Python's
    own, which DPR uses, does not, but has no time limit.
    """

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self._patterns = [_patterns(gold) for gold in answers]

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        text = _normal(text)
        questions = range(len(self._patterns)) if among is None else among
        return {question for question in questions if any(_found(p, text) for p in self._patterns[question])}


def matcher_for(answers: Sequence[Sequence[str]], *, regex: bool = False) -> _TokenMatcher | _PatternMatcher:
    """What finds the questions that a text answers: `matches(text, among=None)` gives their positions.

    Args:
        answers: those of each question.
        regex: whether they are regular expressions.

    Example:
        >>> matcher_for([["Linda Davis"], ["1901", "in 1902"]]).matches("In 1901, LINDA  DAVIS sang.")
        {0, 1}
    """
    return _PatternMatcher(answers) if regex else _TokenMatcher(answers)


def answers_are_patterns(topics: str) -> bool:
    """Whether the name of a topics file, or of Pyserini's topics, says that its answers are regular expressions.

    Example:
        >>> answers_are_patterns("dpr-curated-test"), answers_are_patterns("topics.nq.trec")
        (True, False)
    """
    return _NAMES_OF_PATTERNS.fullmatch(PurePath(topics).name) is not None


def warn_about_unusable_answers(questions: Sequence[Question], *, regex: bool = False) -> None:
    """Log a warning for each answer that matches no text, or every text."""
    problem = "is not a valid regular expression and never matches" if regex else "has no token and matches every text"
    for question in questions:
        for answer in question.answers:
            if (_pattern(answer) is None) if regex else not _tokens(answer):
                log.warning(
                    "the answer %.200r of question %s %s, as in DPR's evaluation", answer, question.qid, problem
                )


def passages_with_answers(
    questions: Sequence[Question],
    texts: Mapping[str, str],
    retrieved: Mapping[str, Iterable[str]] | None = None,
    *,
    regex: bool = False,
    processes: int = 1,
    progress: bool = False,
) -> dict[str, list[str]]:
    """Which passages contain an answer; titles are not looked at.

    Args:
        questions: the questions.
        texts: docid to passage.
        retrieved: docids by question id, to match a question with these passages only; None: with all of `texts`.
        regex: whether answers are regular expressions.
        processes: how many processes work; the result does not depend on it.
        progress: whether a bar is shown on a terminal.

    Returns:
        By question id, for every question, the docids of passages that contain an answer.
    """
    from tqdm import tqdm

    warn_about_unusable_answers(questions, regex=regex)
    if retrieved is None:
        candidates, total = _whole_corpus(texts), len(texts)
    else:  # a passage that several questions retrieved is read and tokenised once
        retrieved_by: dict[str, list[int]] = {}
        for position, question in enumerate(questions):
            for docid in dict.fromkeys(retrieved.get(question.qid, ())):
                retrieved_by.setdefault(docid, []).append(position)
        candidates = ((docid, one_line_parts(texts[docid])[1], by) for docid, by in retrieved_by.items())
        total = len(retrieved_by)
    chunks: Iterator[list[_Candidate]] = iter(lambda: list(islice(candidates, CHUNK)), [])
    answers = [question.answers for question in questions]
    if processes == 1 or total <= CHUNK:  # one chunk is done before a process has started
        matched: Iterable[list[tuple[str, set[int]]]] = map(
            partial(_matched, matcher_for(answers, regex=regex)), chunks
        )
    else:
        matched = _match_in_processes(chunks, answers, regex, processes)
    found: dict[str, list[str]] = {question.qid: [] for question in questions}
    with tqdm(total=total, unit="passage", desc="matching", disable=None if progress else True) as bar:
        for chunk in matched:
            bar.update(len(chunk))
            for docid, positions in chunk:
                for position in positions:
                    found[questions[position].qid].append(docid)
    return found


def answer_qrels(
    questions: Sequence[Question],
    found: Mapping[str, Collection[str]],
    retrieved: Mapping[str, Sequence[str]] | None = None,
) -> Iterator["Qrel"]:
    """Judgements: 1 for a passage with an answer; of those that were retrieved, 0 for one without.

    A question without any judgement has one of 0, of `NO_PASSAGE`.

    Args:
        questions: the questions.
        found: what `passages_with_answers` returned for them.
        retrieved: docids by question id; None if the whole corpus was matched.
    """
    from ir_measures import Qrel

    for question in questions:
        docids = (found if retrieved is None else retrieved).get(question.qid) or [NO_PASSAGE]
        relevant = set(found[question.qid])
        yield from (Qrel(question.qid, docid, int(docid in relevant)) for docid in docids)


def _whole_corpus(texts: Mapping[str, str]) -> Iterator[_Candidate]:
    if isinstance(texts, BeirTexts):  # reads the file from beginning to end, without look-ups
        documents = ((document.docid, document.text.replace("\n", " ")) for document in texts.records())
    else:
        documents = ((docid, one_line_parts(passage)[1]) for docid, passage in texts.items())
    for docid, text in documents:
        if docid.split() != [docid]:
            raise TourError(f"{texts!r} has white space in the document id {docid!r}; a qrels file cannot hold it.")
        yield docid, text, None


def _matched(matcher: "_TokenMatcher | _PatternMatcher", chunk: list[_Candidate]) -> list[tuple[str, set[int]]]:
    return [(docid, matcher.matches(text, among)) for docid, text, among in chunk]


def _match_in_processes(
    chunks: Iterable[list[_Candidate]], answers: Sequence[Sequence[str]], regex: bool, processes: int
) -> Iterator[list[tuple[str, set[int]]]]:
    # Not forked: a Java machine in this process would not survive it.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker, initargs=(answers, regex))
    waiting: deque[Future[list[tuple[str, set[int]]]]] = deque()
    try:
        for chunk in chunks:
            waiting.append(pool.submit(_match_in_worker, chunk))
            if len(waiting) >= processes * WAITING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise TourError("a worker process ended before its work was done; try again with one process.") from error
    except BaseException:  # a signal, or a pattern that takes too long: what the others do is of no use
        for worker in list((pool._processes or {}).values()):  # from Python 3.14 on, this is `pool.kill_workers()`
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_matcher: _TokenMatcher | _PatternMatcher  # set in each worker process


def _start_worker(answers: Sequence[Sequence[str]], regex: bool) -> None:
    global _matcher
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which then ends the pool
    _matcher = matcher_for(answers, regex=regex)


def _end_with_parent() -> None:
    """Wait until the parent has ended, even by SIGKILL, and end this process then."""
    if parent := parent_process():
        wait([parent.sentinel])
        os._exit(1)


def _match_in_worker(chunk: list[_Candidate]) -> list[tuple[str, set[int]]]:
    return _matched(_matcher, chunk)


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


# Predicted answers


def normalise(answer: str) -> str:
    """SQuAD's normal form: lower case, no ASCII punctuation, no English articles, single spaces.

    Example:
        >>> normalise("The  Beatles!")
        'beatles'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, gold: Collection[str]) -> float:
    """1 if the prediction equals one of the answers after normalisation; an empty list counts as one empty answer."""
    return float(any(normalise(predicted) == normalise(answer) for answer in gold or [""]))


def _f1(predicted: str, gold: Collection[str]) -> float:
    """The best word-level F1 over the answers, after normalisation; an empty list counts as one empty answer."""
    said, best = normalise(predicted).split(), 0.0
    for words in [normalise(answer).split() for answer in gold or [""]]:
        if not said or not words:  # as in SQuAD 2.0
            best = max(best, float(said == words))
        else:
            common = (Counter(said) & Counter(words)).total()
            best = max(best, 2 * common / (len(said) + len(words)))
    return best


_MEASURES: Mapping[str, Callable[[str, Collection[str]], float]] = {"EM": exact_match, "F1": _f1}
_NAME = re.compile(r"(EM|F1)@([1-9][0-9]*)")


def answer_means(predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The means of exact match (`EM`) and `F1` over questions, for one predicted answer per question.

    Example:
        >>> answer_means(["The Beatles", "1902"], [["Beatles"], ["1901"]])
        {'EM': 0.5, 'F1': 0.5}
    """
    pairs = list(zip(predicted, answers, strict=True))
    return {name: float(np.mean([measure(*pair) for pair in pairs])) for name, measure in _MEASURES.items()}


def answers_needed(measures: Iterable[str]) -> int:
    """How many predicted answers per question the measures need: their largest cutoff; 0 if none measures answers."""
    return max((int(match[2]) for name in measures if (match := _NAME.fullmatch(name))), default=0)


def answer_values(
    measures: Iterable[str],
    questions: Sequence[Question],
    predictions: Mapping[str, Sequence[str]],
    *,
    regex: bool = False,
) -> dict[str, np.ndarray]:
    """Each measure's value for every question, float64 [questions]; 0 for a question without predictions.

    `EM@k` and `F1@k` are the best exact match and the best F1 among the first k predictions. Where answers are regular
    expressions, EM is 1 for a prediction at whose beginning one of them matches, and F1 is not available.

    Args:
        measures: their names.
        questions: the questions with their answers.
        predictions: answer strings by question id, best first.
        regex: whether answers are regular expressions.

    Example:
        >>> answer_values(["EM@1", "EM@2"], [Question("q1", "who", ["Adele"])], {"q1": ["Cher", "Adele"]})
        {'EM@1': array([0.]), 'EM@2': array([1.])}
    """
    values = {}
    for name in measures:
        match = _NAME.fullmatch(name)
        if match is None:
            raise TourError(f"there is no measure {name!r} of answers; use EM@1, F1@1 or another cutoff.")
        if regex and match[1] != "EM":
            raise TourError(f"{name} compares words, but these answers are regular expressions; use EM@k.")
        function, cutoff = _pattern_match if regex else _MEASURES[match[1]], int(match[2])
        first = [(predictions.get(question.qid, ())[:cutoff], question.answers) for question in questions]
        best = [max((function(answer, gold) for answer in predicted), default=0) for predicted, gold in first]
        values[name] = np.array(best, dtype=np.float64)
    return values


def _pattern_match(predicted: str, gold: Collection[str]) -> float:
    """1 if one of the regular expressions matches at the beginning of the prediction, as in DrQA and DensePhrases.

    Both are in Unicode normal form D; case is ignored.

    Example:
        >>> _pattern_match("1969 or so", ["19[0-9]{2}"]), _pattern_match("in 1969", ["19[0-9]{2}"])
        (1.0, 0.0)
    """
    text = _normal(predicted.strip())
    return float(any(_found(pattern, text, at_begin=True) for pattern in _patterns(gold)))
