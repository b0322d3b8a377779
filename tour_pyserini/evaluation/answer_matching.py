"""Whether a passage contains an answer, decided as DPR and Pyserini decide it."""

import logging
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Any, Protocol

from tour_pyserini.data.beir_texts import BeirTexts
from tour_pyserini.data.documents import one_line_parts
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError


def answer_text(passage: str) -> str:
    """The text in which answers are looked for."""
    return one_line_parts(passage)[1]


def all_answer_texts(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Docid and text of every document of a corpus, in its order."""
    if isinstance(texts, BeirTexts):  # reads the file from beginning to end, without look-ups
        found = ((document.docid, document.text.replace("\n", " ")) for document in texts.records())
    else:
        found = ((docid, answer_text(passage)) for docid, passage in texts.items())
    for docid, text in found:
        if docid.split() != [docid]:
            raise TourError(f"{texts!r} has white space in the document id {docid!r}, which no qrels file can hold.")
        yield docid, text


log = logging.getLogger(__name__)

# CuratedTREC alone has regular expressions: dpr-curated-test, curatedtrec-test.json, DPR's own trec-test.qa.csv. Other
# names with `trec` in them say no more than a format.
_NAMES_OF_PATTERNS = re.compile(r".*curated.*|trec-test(\..*)?", re.IGNORECASE | re.DOTALL)


class Matcher(Protocol):
    """Finds the questions that a text answers."""

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        """Positions of the questions, all or only some, that have an answer in the text."""


def matcher_for(answers: Sequence[Sequence[str]], *, regex: bool = False) -> Matcher:
    """A matcher for the answers of each question.

    Example:
        >>> matcher_for([["Linda Davis"], ["1901", "in 1902"]]).matches("In 1901, LINDA  DAVIS sang.")
        {0, 1}
    """
    return PatternMatcher(answers) if regex else TokenMatcher(answers)


class TokenMatcher:
    """Answers as sequences of tokens: Unicode normal form D, DPR's tokenizer, case ignored.

    All answers are kept in one tree by their tokens, so that a text is read once however many questions there are.
    As in DPR an answer without tokens, such as an empty one, is in every text.
    """

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self._root = _Node()
        for question, each in enumerate(answers):
            for answer in each:
                node = self._root
                for token in _tokens(answer):
                    node = node.children.setdefault(token, _Node())
                node.questions.append(question)

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        """Positions of the questions, all or only some, that have an answer in the text."""
        found = set(self._root.questions)
        tokens = _tokens(text)
        for start in range(len(tokens)):
            node: _Node | None = self._root
            for at in range(start, len(tokens)):
                node = node.children.get(tokens[at]) if node else None
                if node is None:
                    break
                found.update(node.questions)
        return found if among is None else found.intersection(among)


class PatternMatcher:
    """Answers as regular expressions, searched in normal form D without regard to case."""

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self._patterns = [[one for answer in each if (one := _pattern(answer))] for each in answers]

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        """Positions of the questions, all or only some, that have an answer in the text."""
        text = _normal(text)
        questions = range(len(self._patterns)) if among is None else among
        return {question for question in questions if any(one.search(text) for one in self._patterns[question])}


def has_patterns(topics: str) -> bool:
    """Whether a topics file, or one of Pyserini's names, says that its answers are regular expressions.

    Example:
        >>> has_patterns("dpr-curated-test"), has_patterns("topics.nq.trec")
        (True, False)
    """
    return _NAMES_OF_PATTERNS.fullmatch(PurePath(topics).name) is not None


def pattern_match(predicted: str, gold: Collection[str]) -> float:
    """1 if one of the regular expressions matches at the beginning of the prediction, as DrQA and DensePhrases do it.

    In normal form D, without regard to case.

    Example:
        >>> pattern_match("1969 or so", ["19[0-9]{2}"]), pattern_match("in 1969", ["19[0-9]{2}"])
        (1.0, 0.0)
    """
    text = _normal(predicted.strip())
    return float(any(one.match(text) for answer in gold if (one := _pattern(answer))))


def warn_about_unusable_answers(questions: Sequence[Question], *, regex: bool = False) -> None:
    """Log the answers that no text has, and those that every text has."""
    for question, answer in _unusable(questions, regex):
        what = "is no regular expression and never matches" if regex else "has no token and matches every passage"
        log.warning("the answer %r of question %s %s, as in DPR's own evaluation", answer, question.qid, what)


class _Node:
    __slots__ = ("children", "questions")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.questions: list[int] = []


def _unusable(questions: Sequence[Question], regex: bool) -> Iterator[tuple[Question, str]]:
    for question in questions:
        for answer in question.answers:
            if (_pattern(answer) is None) if regex else not _tokens(answer):
                yield question, answer


def _normal(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@cache
def _tokenizer() -> Any:
    from pyserini.eval.evaluate_dpr_retrieval import SimpleTokenizer

    return SimpleTokenizer()


def _tokens(text: str) -> list[str]:
    return _tokenizer().tokenize(_normal(text)).words(uncased=True)


def _pattern(answer: str) -> re.Pattern[str] | None:
    try:
        return re.compile(_normal(answer), flags=re.IGNORECASE | re.MULTILINE)
    except (re.error, OverflowError, RecursionError):
        return None
