"""Exact match (EM) and F1 of predicted answers."""

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import pattern_match

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


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
        function, cutoff = pattern_match if regex else _MEASURES[match[1]], int(match[2])
        first = [(predictions.get(question.qid, ())[:cutoff], question.answers) for question in questions]
        best = [max((function(answer, gold) for answer in predicted), default=0) for predicted, gold in first]
        values[name] = np.array(best, dtype=np.float64)
    return values
