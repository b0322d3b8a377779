"""Exact match and F1 of answer strings, normalised as in SQuAD's evaluation."""

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Lower case, without ASCII punctuation and English articles, with single blanks.

    Example:
        >>> normalise("The  Beatles!")
        'beatles'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, gold: Collection[str]) -> float:
    """1 if the prediction equals one of the answers after normalisation; no answers are one empty answer."""
    return float(any(normalise(predicted) == normalise(answer) for answer in gold or [""]))


def f1(predicted: str, gold: Collection[str]) -> float:
    """The best harmonic mean of precision and recall of words over the answers; no answers are one empty answer."""
    return max(_f1(normalise(predicted).split(), normalise(answer).split()) for answer in gold or [""])


def best_of(measure: Callable[[str, Collection[str]], float], predicted: Sequence[str], gold: Collection[str]) -> float:
    """The best value over several predictions; 0 for none."""
    return max((measure(one, gold) for one in predicted), default=0.0)


def _f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    if not predicted or not gold:  # as in SQuAD 2.0
        return float(predicted == gold)
    common = (Counter(predicted) & Counter(gold)).total()
    return 2 * common / (len(predicted) + len(gold))


MEASURES: Mapping[str, Callable[[str, Collection[str]], float]] = MappingProxyType({"EM": exact_match, "F1": f1})
