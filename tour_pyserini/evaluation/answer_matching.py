"""Whether a passage contains an answer to a question, decided as DPR and Pyserini decide it."""

import logging
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import PurePath
from typing import Any, Protocol

from tour_pyserini.data.documents import one_line_parts
from tour_pyserini.data.texts import BeirTexts
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_patterns import AnswerPattern

log = logging.getLogger(__name__)

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
    """Matches answers as regular expressions, in Unicode normal form D, case ignored."""

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self._patterns = [_patterns(gold) for gold in answers]

    def matches(self, text: str, among: Collection[int] | None = None) -> set[int]:
        """Positions of the questions that have an answer in the text; `among` limits which questions are tried."""
        text = _normal(text)
        questions = range(len(self._patterns)) if among is None else among
        return {question for question in questions if any(p.search(text) for p in self._patterns[question])}


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
    return float(any(pattern.match(text) for pattern in _patterns(gold)))


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


def _patterns(answers: Collection[str]) -> list[AnswerPattern]:
    """The answers that are valid regular expressions, compiled."""
    return [pattern for answer in answers if (pattern := _pattern(answer))]


@lru_cache(maxsize=4096)
def _pattern(answer: str) -> AnswerPattern | None:
    try:
        return AnswerPattern(answer)
    except ValueError:
        return None
