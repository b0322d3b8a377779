"""Re-ranker scores and retriever similarities on one scale."""

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats


def intercept(scores: Floats, similarities: Floats, mask: Flags) -> Floats:
    """The b [n, 1] of s = b + z: how far labelled candidates' scores [n, m] lie above their scaled similarities."""
    count = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return (
        np.where(mask, np.where(mask, scores, 0) - np.where(mask, similarities, 0), 0).sum(axis=1, keepdims=True)
        / count
    )


def mixed(scores: Floats, similarities: Floats, mask: Flags, weight: float) -> Floats:
    """Lambda s + (1 - lambda) (b + z), [n, m]: both parts have the same mean, so the sum is a score like s.

    Args:
        scores: [n, m] labels s.
        similarities: [n, m] scaled similarities z.
        mask: [n, m] true where there is a candidate.
        weight: lambda.
    """
    with np.errstate(invalid="ignore"):
        return weight * scores + (1 - weight) * (intercept(scores, similarities, mask) + similarities)
