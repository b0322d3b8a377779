"""The scale that makes similarities comparable with labels, found without relevance judgements."""

import math
from typing import Self

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats

ENOUGH = 64
"""How many queries the scale is found on: the first that are searched. After them it stays the same."""

# Few candidates say little about a correlation: the estimate starts at this value, with the weight of this many.
_CORRELATION, _WEIGHT = 0.4, 20.0
# The retriever keeps some weight even where the re-ranker contradicts it.
_LEAST = 0.1


class Calibration:
    """The slope a of s = b + a z: how many units of label a unit of similarity is worth, within queries.

    Least squares over the first candidates of the first queries, each query with an intercept b of its own. Retrieval
    selects candidates by z, which leaves this estimate unbiased, unlike a ratio of standard deviations.

    Attributes:
        queries: how many queries it was found on.

    Example:
        >>> calibration = Calibration()
        >>> z = np.repeat([[0.9, 0.7, 0.5]], 999, axis=0)
        >>> round(calibration.add(z, 3 + 20 * z, z > 0).scale, 1)
        18.9
    """

    def __init__(self) -> None:
        self.queries = 0
        self._candidates = self._z_z = self._s_s = self._z_s = 0.0

    def add(self, similarities: Floats, labels: Floats, mask: Flags) -> Self:
        """Learn from more queries, unless there were enough; returns itself.

        Args:
            similarities: [n, k] inner products z, unscaled.
            labels: [n, k] labels s.
            mask: [n, k] true where there is a candidate.
        """
        mask = mask[: ENOUGH - self.queries]
        z, s = _centred(similarities[: len(mask)], mask), _centred(labels[: len(mask)], mask)
        self.queries += len(mask)
        self._candidates += float(mask.sum())
        self._z_z += float((z * z).sum())
        self._s_s += float((s * s).sum())
        self._z_s += float((z * s).sum())
        return self

    @property
    def scale(self) -> float:
        """The estimate of a, above 0; 1 where the similarities or the labels are all equal."""
        if not (self._z_z > 0 and self._s_s > 0):
            return 1.0
        correlation = self._z_s / math.sqrt(self._z_z * self._s_s)
        correlation = (self._candidates * correlation + _WEIGHT * _CORRELATION) / (self._candidates + _WEIGHT)
        return max(correlation, _LEAST) * math.sqrt(self._s_s / self._z_z)


def _centred(values: Floats, mask: Flags) -> Floats:
    values = np.where(mask, values, 0).astype(np.float64)
    means = values.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return np.where(mask, values - means, 0)
