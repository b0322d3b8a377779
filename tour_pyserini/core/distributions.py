"""Distributions over a query's k candidates, computed in log space.

No probability is clamped, so a candidate whose probability is almost 0 keeps its full gradient.
"""

import numpy as np

from tour_pyserini.core.arrays import Flags, Floats

FARTHEST = 6.0
"""Beyond this many standard deviations a value stands out as far as it can."""


def _log_softmax(logits: Floats) -> Floats:
    """Logarithm of the softmax over the last axis; minus infinity stays minus infinity.

    Args:
        logits: [..., k]; a row that is minus infinity everywhere stays so.
    """
    largest = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shifted = logits - np.where(np.isfinite(largest), largest, 0)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    return shifted - np.log(np.where(total > 0, total, 1))


def softmax(logits: Floats) -> Floats:
    """Softmax over the last axis: P_k(c|q) of similarities, P(c=c*|q, phi) of scores over tau."""
    return np.exp(_log_softmax(logits))


def nucleus(scores: Floats, *, tau: float, p: float) -> Flags:
    """The pseudo-positives C_hard (Eq. 7): the fewest candidates whose softmax(s / tau) adds up to p or more.

    Args:
        scores: [..., k] re-ranker logits, minus infinity where there is no candidate. Equal scores keep their order.
        tau: temperature of the probabilities.
        p: the mass to reach.

    Returns:
        [..., k] true for the members.
    """
    probabilities = softmax(scores.astype(np.float64) / tau)
    order = np.argsort(-probabilities, axis=-1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=-1)
    mass_before = np.cumsum(ranked, axis=-1) - ranked
    members = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(members, order, mass_before < p, axis=-1)
    return members & np.isfinite(scores)


def marginal(similarities: Floats, members: Flags) -> Floats:
    """P restricted to `members` and normalised: the target whose gradient is that of Eq. 8.

    -log sum_H P has the gradient C^T (P - T) with T = P restricted to H.
    """
    return softmax(np.where(members, similarities, -np.inf))


def standardise(values: Floats) -> Floats:
    """[k] the distances from the mean in standard deviations, at most 6; zero where all values are equal.

    Example:
        >>> standardise(np.array([1.0, 3.0, 5.0, 3.0])).round(3)
        array([-1.414,  0.   ,  1.414,  0.   ])
    """
    deviation = values.std() if len(values) else 0.0
    if not deviation > 1e-9 * np.abs(values).max(initial=0):  # what is left is rounding
        return np.zeros(len(values))
    return np.clip((values - values.mean()) / deviation, -FARTHEST, FARTHEST)
