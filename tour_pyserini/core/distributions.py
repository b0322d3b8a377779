"""Distributions over a query's k candidates, computed in log space.

No probability is clamped, so a candidate whose probability is almost 0 keeps its full gradient.
"""

import numpy as np

from tour_pyserini.core.arrays import Flags, Floats

_FARTHEST = 6.0
"""Beyond this many standard deviations a value stands out as far as it can."""


def softmax(logits: Floats) -> Floats:
    """[k] softmax: P_k(c|q) of similarities, P(c=c*|q, phi) of scores over tau; 0 where a logit is minus infinity."""
    largest = logits.max(initial=-np.inf)
    if not np.isfinite(largest):
        return np.zeros_like(logits)
    shifted = logits - largest
    return np.exp(shifted - np.log(np.exp(shifted).sum()))


def nucleus(scores: Floats, *, tau: float, p: float) -> Flags:
    """The pseudo-positives C_hard (Eq. 7): the fewest candidates whose softmax(s / tau) adds up to p or more.

    Args:
        scores: [k] re-ranker logits, minus infinity where there is no candidate. Equal scores keep their order.
        tau: temperature of the probabilities.
        p: the mass to reach.

    Returns:
        [k] true for the members.
    """
    probabilities = softmax(scores.astype(np.float64) / tau)
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order]
    members = np.zeros(len(scores), dtype=bool)
    members[order[np.cumsum(ranked) - ranked < p]] = True
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
    if not len(values):
        return values
    centred = values - values.mean()
    deviation = np.sqrt((centred * centred).mean())
    if not deviation > 1e-9 * np.abs(values).max():  # what is left is rounding
        return np.zeros(len(values))
    return np.clip(centred / deviation, -_FARTHEST, _FARTHEST)
