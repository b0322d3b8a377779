"""Labels and similarities on one scale, their weighted sum, and the odds of labels."""

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


# Beyond this many standard deviations a label stands out as far as it can.
_FARTHEST = 6.0


def odds(values: Floats, labels: Floats) -> Floats:
    """How far values [k] stand out among a query's labels [m]: exp of their distance from the mean in deviations, [k].

    It depends neither on the labels' unit nor on their zero. It is the softmax of the labels at a temperature of one
    standard deviation, up to a factor: near zero for all but those that stand out.

    Example:
        >>> odds(np.array([5.0, 3.0]), np.array([1.0, 3.0, 5.0, 3.0])).round(3)
        array([4.113, 1.   ])
    """
    spread = labels.std()
    if not spread > 1e-9 * np.abs(labels).max(initial=0):
        return np.ones(len(values))
    return np.exp(np.clip((values - labels.mean()) / spread, -_FARTHEST, _FARTHEST))
