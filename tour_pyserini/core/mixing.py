"""Labels and similarities on one scale, and their weighted sum."""

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats


def intercept(labels: Floats, similarities: Floats, mask: Flags) -> Floats:
    """The b [n, 1] of s = b + z: the mean difference between labels and scaled similarities.

    Args:
        labels: [n, m] labels s.
        similarities: [n, m] scaled similarities z.
        mask: [n, m] true where there is a candidate.
    """
    count = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return (
        np.where(mask, np.where(mask, labels, 0) - np.where(mask, similarities, 0), 0).sum(axis=1, keepdims=True)
        / count
    )


def mixed(labels: Floats, similarities: Floats, mask: Flags, weight: float) -> Floats:
    """Lambda s + (1 - lambda) (b + z), [n, m]: both parts have the same mean, so the sum is on the scale of labels.

    Args:
        labels: [n, m] labels s.
        similarities: [n, m] scaled similarities z.
        mask: [n, m] true where there is a candidate.
        weight: lambda.
    """
    with np.errstate(invalid="ignore"):
        return weight * labels + (1 - weight) * (intercept(labels, similarities, mask) + similarities)
