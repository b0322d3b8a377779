"""The interface of a re-ranker, and the function through which all its scores are computed."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tour_pyserini.errors import TourError

Pair = tuple[str, str]
"""A query and a passage."""


@runtime_checkable
class Reranker(Protocol):
    """Any object that scores (query, passage) pairs.

    Four attributes are optional:

    - `fingerprint: str` identifies everything a score depends on besides the pair (weights, tokenizer, maximum length,
      input template). Without it, scores cannot be cached.
    - `description: Description` says how the model is run, for people.
    - `on_progress: Callable[[int], None] | None` is called with the number of pairs that were just scored.
    - `reads: Callable[[str], str]` returns the text that the model reads of a passage, for the key of the score cache.
      It is needed only if two passages with equal characters can get different scores (because of their titles).
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
    if not len(pairs):
        return np.empty(0)
    scores = np.asarray(reranker.predict(pairs), dtype=np.float64)
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
