"""What a re-ranker is, and the one way its scores are asked for."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tour_pyserini.errors import TourError

Pair = tuple[str, str]
"""A query and a passage."""


@runtime_checkable
class Reranker(Protocol):
    """Anything that scores (query, passage) pairs.

    Two attributes are optional. `fingerprint: str` names everything a score depends on besides the pair (weights,
    tokenizer, maximum length, input template); without it scores cannot be cached. `on_progress: Callable[[int],
    None] | None` is called with the number of pairs that were just scored.
    """

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Raw logits, float64 [len(pairs)]; higher is more relevant."""
        ...


def checked(reranker: Reranker, pairs: Sequence[Pair]) -> np.ndarray:
    """The scores of `pairs`, known to be one finite number each.

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
            f"the re-ranker {name_of(reranker)} returned scores of shape {list(scores.shape)} for {len(pairs)} pairs; "
            "its predict must return one number per pair."
        )
    if not np.isfinite(scores).all():
        worst = int(np.flatnonzero(~np.isfinite(scores))[0])
        query, passage = pairs[worst]
        raise TourError(
            f"the re-ranker {name_of(reranker)} gave the score {scores[worst]} to the query {query[:80]!r} "
            f"and the passage that starts with {passage[:80]!r}; check its weights."
        )
    return scores


def name_of(reranker: Any) -> str:
    """What to call a re-ranker in a message."""
    return getattr(reranker, "name", None) or type(reranker).__name__
