"""The interface of a re-ranker, and the functions through which everybody else asks it for scores.

What a re-ranker returns is checked here, once, when it leaves the re-ranker; the score cache trusts what it stores.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tour_pyserini.errors import TourError

Pair = tuple[str, str]
"""A query and a passage."""

Part = tuple[np.ndarray, np.ndarray]
"""Some of the pairs of a call: their positions, int [n], and their raw logits, float64 [n]."""

PART = 32
"""Pairs that are scored between two writes to the score cache if a re-ranker has no `predict_parts`."""


@runtime_checkable
class Reranker(Protocol):
    """Any object that scores (query, passage) pairs.

    Five attributes are optional:

    - `fingerprint: str` identifies everything a score depends on besides the pair (weights, tokenizer, maximum length,
      input template). Without it, scores cannot be cached.
    - `on_progress: Callable[[int], None] | None` is called by `predict` with the number of pairs that were just scored.
    - `reads: Callable[[str], str]` returns the text that the model reads of a passage, for the key of the score cache.
      It is needed only if two passages with equal characters can get different scores (because of their titles).
    - `spent() -> Mapping[str, float]` says what was paid since the last call of it: requests, tokens, money.
    - `predict_parts(pairs) -> Iterator[Part]` yields scores of distinct pairs as soon as they are computed, in any
      order, so that the score cache stores them before the call has ended: each part has positions in `pairs` and their
      logits, and each position comes once. A re-ranker that waits for a server yields each answer when it arrives. It
      must give the scores that `predict` gives. Without it, the score cache calls `predict` with 32 pairs at a time, so
      a re-ranker that is faster with more pairs should have it; `PartsReranker` then has `predict`.
    """

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Compute raw logits, float64 [len(pairs)]; higher is more relevant."""
        ...


class PartsReranker(ABC):
    """A re-ranker that computes scores part by part."""

    on_progress: Callable[[int], None] | None = None

    @abstractmethod
    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Yield the raw logits of some of the pairs as soon as they are computed, each position once."""

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Compute raw logits, float64 [len(pairs)]; higher is more relevant."""
        scores = np.empty(len(pairs))
        with closing(self.predict_parts(pairs)) as parts:
            for positions, logits in parts:
                scores[positions] = logits
                if self.on_progress is not None:
                    self.on_progress(len(positions))
        return scores


def score_pairs(reranker: Reranker, pairs: Sequence[Pair]) -> np.ndarray:
    """Score `pairs`, and check that each gets one finite number.

    Args:
        reranker: any object with `predict`.
        pairs: (query, passage) texts.

    Returns:
        Raw logits, float64 [len(pairs)].

    Raises:
        TourError: when the number of scores is wrong, or a score is NaN or infinite.
    """
    return score_pairs_counted(reranker, pairs)[0]


def score_pairs_counted(reranker: Reranker, pairs: Sequence[Pair]) -> tuple[np.ndarray, int]:
    """Score `pairs` as `score_pairs` does; also the number of those that no cache had."""
    if not len(pairs):
        return np.empty(0), 0
    if hasattr(reranker, "predict_counted"):  # the score cache, which has checked its scores
        return reranker.predict_counted(pairs)
    return _check_scores(reranker, pairs, reranker.predict(pairs)), len(pairs)


def score_parts(reranker: Reranker, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
    """Score distinct `pairs` part by part, each as soon as it is computed, and check them as `score_pairs` does."""
    if not hasattr(reranker, "predict_parts"):
        for start in range(0, len(pairs), PART):
            part = pairs[start : start + PART]
            yield np.arange(start, start + len(part)), _check_scores(reranker, part, reranker.predict(part))
        return
    missing = np.ones(len(pairs), dtype=bool)
    with closing(reranker.predict_parts(pairs)) as parts:
        for positions, logits in parts:
            missing[positions] = False
            yield positions, _check_scores(reranker, [pairs[position] for position in positions], logits)
    if missing.any():
        name, count = display_name(reranker), missing.sum()
        raise TourError(f"predict_parts of the re-ranker {name} gave no score to {count} of {len(pairs)} pairs.")


def _check_scores(reranker: Reranker, pairs: Sequence[Pair], predicted: Any) -> np.ndarray:
    """The one place where scores of any object, ours or foreign, become float64 [len(pairs)] that code trusts."""
    name, scores = display_name(reranker), np.asarray(predicted, dtype=np.float64)
    if scores.shape != (len(pairs),):
        raise TourError(f"the re-ranker {name} must give one number per pair, not {scores.shape} for {len(pairs)}.")
    for position in map(int, np.flatnonzero(~np.isfinite(scores))):
        query, passage = (text[:80] for text in pairs[position])
        raise TourError(f"the re-ranker {name} gave the score {scores[position]} to {query!r} and {passage!r}.")
    return scores


def spent_by(reranker: Any) -> Mapping[str, float]:
    """What a re-ranker, or the one inside a score cache, spent since the last call of this; nothing if it is free."""
    inner = getattr(reranker, "reranker", reranker)
    return inner.spent() if hasattr(inner, "spent") else {}


def display_name(reranker: Any) -> str:
    """The name of a re-ranker for messages: its attribute `name`, or else the name of its class."""
    return getattr(reranker, "name", None) or type(reranker).__name__
