"""One scale for similarities and re-ranker scores, found without relevance labels."""

import math

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats

ENOUGH = 64
"""Queries that the scale is found on, the first that come; after them it stays."""

# A handful of candidates says little about a correlation: it is drawn towards this one, as if so many had shown it.
_CORRELATION, _WEIGHT = 0.4, 20.0
# A re-ranker that contradicts the retriever is no reason to forget the retriever.
_LEAST = 0.1


class Calibration:
    """The a of s = b + a z: how many units of score a unit of similarity is worth, within queries.

    Least squares over the first candidates of the first queries, each query with an intercept b of its own. Retrieval
    selects candidates by z, which leaves this estimate unbiased, unlike a ratio of standard deviations.

    Attributes:
        queries: how many queries it was found on.

    Example:
        >>> calibration = Calibration()
        >>> z = np.repeat([[0.9, 0.7, 0.5]], 999, axis=0)
        >>> calibration.add(z, 3 + 20 * z, z > 0)
        >>> round(calibration.scale, 1)
        18.9
    """

    def __init__(self) -> None:
        self.queries = 0
        self._candidates = self._z_z = self._s_s = self._z_s = 0.0

    def add(self, similarities: Floats, scores: Floats, mask: Flags) -> None:
        """Learn from more queries, unless there were enough.

        Args:
            similarities: [n, k] inner products z, unscaled.
            scores: [n, k] re-ranker logits s.
            mask: [n, k] true where there is a candidate.
        """
        mask = mask[: ENOUGH - self.queries]
        z, s = _centred(similarities[: len(mask)], mask), _centred(scores[: len(mask)], mask)
        self.queries += len(mask)
        self._candidates += float(mask.sum())
        self._z_z += float((z * z).sum())
        self._s_s += float((s * s).sum())
        self._z_s += float((z * s).sum())

    @property
    def scale(self) -> float:
        """The estimate of a, above 0; 1 where the similarities or the scores do not differ."""
        if not (self._z_z > 0 and self._s_s > 0):
            return 1.0
        correlation = self._z_s / math.sqrt(self._z_z * self._s_s)
        correlation = (self._candidates * correlation + _WEIGHT * _CORRELATION) / (self._candidates + _WEIGHT)
        return max(correlation, _LEAST) * math.sqrt(self._s_s / self._z_z)


def _centred(values: Floats, mask: Flags) -> Floats:
    values = np.where(mask, values, 0).astype(np.float64)
    means = values.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return np.where(mask, values - means, 0)
