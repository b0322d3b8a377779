"""The interface of a re-ranker, and the functions through which all its scores are computed."""

from collections.abc import Generator, Sequence
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

    Six attributes are optional:

    - `fingerprint: str` identifies everything a score depends on besides the pair (weights, tokenizer, maximum length,
      input template). Without it, scores cannot be cached.
    - `description: Description` says how the model is run, for people.
    - `on_progress: Callable[[int], None] | None` is called with the number of pairs that were just scored.
    - `reads: Callable[[str], str]` returns the text that the model reads of a passage, for the key of the score cache.
      It is needed only if two passages with equal characters can get different scores (because of their titles).
    - `predict_parts(pairs) -> Iterator[Part]` yields scores as soon as they are computed, in any order, so that the
      score cache keeps them before the call has ended: each part has positions in `pairs` and their logits, and each
      position comes once. A re-ranker that waits for a server yields each answer when it arrives. It must give the
      scores that `predict` gives. Without it, the score cache calls `predict` with 32 pairs at a time, so a re-ranker
      that is faster with more pairs should have it. `BatchedReranker` has it.
    - `predict_counted(pairs) -> (logits, computed)` also tells how many of the pairs were not merely looked up.
    """

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Compute raw logits, float64 [len(pairs)]; higher is more relevant."""
        ...


def checked_scores(reranker: Reranker, pairs: Sequence[Pair]) -> np.ndarray:
    """Score `pairs` and check that there is one finite number per pair.

    Args:
        reranker: any object with `predict`.
        pairs: (query, passage) texts.

    Returns:
        Raw logits, float64 [len(pairs)].

    Raises:
        TourError: when the number of scores is wrong, or a score is NaN or infinite.
    """
    return _checked(reranker, pairs, reranker.predict(pairs)) if len(pairs) else np.empty(0)


def counted_scores(reranker: Reranker, pairs: Sequence[Pair]) -> tuple[np.ndarray, int]:
    """Score and check `pairs`; also the number of those that the re-ranker did not merely look up."""
    counted = getattr(reranker, "predict_counted", None)
    if counted is None or not len(pairs):
        return checked_scores(reranker, pairs), len(pairs)
    scores, computed = counted(pairs)
    return _checked(reranker, pairs, scores), computed


def checked_parts(reranker: Reranker, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
    """Score `pairs` part by part, each as soon as it is computed, and check them as `checked_scores` does."""
    if not hasattr(reranker, "predict_parts"):
        for start in range(0, len(pairs), PART):
            part = pairs[start : start + PART]
            yield np.arange(start, start + len(part)), checked_scores(reranker, part)
        return
    missing = np.ones(len(pairs), dtype=bool)
    with closing(reranker.predict_parts(pairs)) as parts:
        for positions, scores in parts:
            missing[positions] = False
            yield positions, _checked(reranker, [pairs[position] for position in positions], scores)
    if missing.any():
        raise TourError(
            f"the re-ranker {display_name(reranker)} gave no score to {missing.sum()} of {len(pairs)} pairs; "
            "its predict_parts must yield every position once."
        )


def joined(parts: Generator[Part, None, None], count: int) -> np.ndarray:
    """The scores, float64 [count], of all parts in the order of their positions."""
    scores = np.empty(count)
    with closing(parts):
        for positions, part in parts:
            scores[positions] = part
    return scores


def _checked(reranker: Reranker, pairs: Sequence[Pair], predicted: Any) -> np.ndarray:
    scores = np.asarray(predicted, dtype=np.float64)
    if scores.shape != (len(pairs),):
        raise TourError(
            f"the re-ranker {display_name(reranker)} returned scores of shape {list(scores.shape)} for {len(pairs)} "
            "pairs; its predict must return one number per pair."
        )
    if not np.isfinite(scores).all():
        first = int(np.flatnonzero(~np.isfinite(scores))[0])
        query, passage = pairs[first]
        raise TourError(
            f"the re-ranker {display_name(reranker)} gave the score {scores[first]} to the query {query[:80]!r} "
            f"and the passage that starts with {passage[:80]!r}; check its weights."
        )
    return scores


def display_name(reranker: Any) -> str:
    """The name of a re-ranker for messages: its attribute `name`, or else the name of its class."""
    return getattr(reranker, "name", None) or type(reranker).__name__
