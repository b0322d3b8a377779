"""The scale that makes similarities comparable with labels, found without relevance judgements.

It is the slope a of s = b + a z: how many units of label a unit of similarity is worth within a query; each query has
an intercept b of its own. Retrieval selects candidates by z, which leaves the least-squares slope unbiased, unlike a
ratio of standard deviations.
"""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats

# Few candidates say little about a correlation: the estimate starts at this value, with the weight of this many.
_CORRELATION, _WEIGHT = 0.4, 20.0
# The retriever keeps some weight even where the re-ranker contradicts it.
_LEAST = 0.1
# Values that differ by less than this share of the largest are equal: the rest is rounding, of float32 too.
_ROUNDING = 1e-6


class Moments(NamedTuple):
    """Sums over the candidates of each of n queries, centred within the query: [n] each."""

    candidates: Floats
    z_z: Floats
    s_s: Floats
    z_s: Floats


def moments(similarities: Floats, labels: Floats, mask: Flags) -> Moments:
    """What a scale is computed from.

    Args:
        similarities: [n, k] inner products z, unscaled.
        labels: [n, k] labels s.
        mask: [n, k] true where there is a label.
    """
    z, s = _centred(similarities, mask), _centred(labels, mask)
    return Moments(mask.sum(axis=1).astype(np.float64), (z * z).sum(axis=1), (s * s).sum(axis=1), (z * s).sum(axis=1))


def scale_of_each(found: Moments) -> Floats:
    """The scale [n] of each query by itself, above 0; 1 where its similarities or its labels are all equal.

    Example:
        >>> z = np.array([[0.9, 0.7, 0.5, 0.3]])
        >>> scale_of_each(moments(z, 3 + 20 * z, z > 0)).round(1)
        array([10.])
    """
    usable = (found.z_z > 0) & (found.s_s > 0)
    z_z, s_s = np.where(usable, found.z_z, 1.0), np.where(usable, found.s_s, 1.0)
    correlation = (found.candidates * found.z_s / np.sqrt(z_z * s_s) + _WEIGHT * _CORRELATION) / (
        found.candidates + _WEIGHT
    )
    return np.where(usable, np.maximum(correlation, _LEAST) * np.sqrt(s_s / z_z), 1.0)


def scale_of_all(found: Moments) -> float:
    """One scale for a collection, from the candidates of all queries together.

    Example:
        >>> z = np.repeat([[0.9, 0.7, 0.5]], 999, axis=0)
        >>> round(scale_of_all(moments(z, 3 + 20 * z, z > 0)), 1)
        19.9
    """
    return float(scale_of_each(Moments(*(np.atleast_1d(column.sum()) for column in found)))[0])


def _centred(values: Floats, mask: Flags) -> Floats:
    """The values minus their mean, [n, k]; 0 where there is none, and where all values of a query are equal."""
    values = np.where(mask, values, 0).astype(np.float64)
    means = values.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    centred = np.where(mask, values - means, 0)
    differ = np.abs(centred).max(axis=1, initial=0) > _ROUNDING * np.abs(values).max(axis=1, initial=0)
    return np.where(differ[:, None], centred, 0)
