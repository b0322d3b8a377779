"""One scale for similarities and re-ranker scores, found without relevance labels."""

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats

FIRST = 64
"""Queries that the scale is found on: the first of a search, so that it does not depend on how topics are batched."""

# A handful of candidates says little about a correlation: it is drawn towards this one, as if so many had shown it.
_CORRELATION, _WEIGHT = 0.4, 20.0
# A re-ranker that contradicts the retriever is no reason to forget the retriever.
_LEAST = 0.1


def slope(similarities: Floats, scores: Floats, mask: Flags) -> float:
    """The a of s = b + a z: how many units of score a unit of similarity is worth, within queries.

    Least squares over the candidates of all queries, each query with an intercept b of its own. Retrieval selects
    candidates by z, which leaves this estimate unbiased, unlike a ratio of standard deviations.

    Args:
        similarities: [n, k] inner products z, unscaled.
        scores: [n, k] re-ranker logits s.
        mask: [n, k] true where there is a candidate.

    Returns:
        a > 0; 1 where the similarities or the scores do not differ.

    Example:
        >>> z = np.array([[0.9, 0.7, 0.5]])
        >>> round(slope(np.repeat(z, 999, axis=0), np.repeat(3 + 20 * z, 999, axis=0), np.ones((999, 3), bool)))
        20
    """
    z, s = _centred(similarities[:FIRST], mask[:FIRST]), _centred(scores[:FIRST], mask[:FIRST])
    spread_z, spread_s = float((z * z).sum()), float((s * s).sum())
    if not (spread_z > 0 and spread_s > 0):
        return 1.0
    count = float(mask[:FIRST].sum())
    correlation = float((z * s).sum()) / np.sqrt(spread_z * spread_s)
    correlation = (count * correlation + _WEIGHT * _CORRELATION) / (count + _WEIGHT)
    return max(correlation, _LEAST) * float(np.sqrt(spread_s / spread_z))


def _centred(values: Floats, mask: Flags) -> Floats:
    values = np.where(mask, values, 0).astype(np.float64)
    means = values.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return np.where(mask, values - means, 0)
