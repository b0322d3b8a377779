"""Scores of a list whose order is given, so that evaluators, which sort by score, keep that order."""

from collections.abc import Sequence
from ctypes import c_float
from itertools import pairwise

# What run files and evaluators tell apart: six decimals, in single precision.
_DECIMALS = 6


def says_its_order(scores: Sequence[float]) -> bool:
    """Whether each score is below the one before it, to six decimals and in single precision."""
    kept = [c_float(round(score, _DECIMALS)).value for score in scores]
    return all(first > second for first, second in pairwise(kept))


def by_rank(count: int) -> list[float]:
    """Scores that say no more than an order: count, ..., 2, 1."""
    return [float(count - position) for position in range(count)]
