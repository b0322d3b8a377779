"""The scale that makes similarities comparable with labels, found without relevance judgements.

It is the slope a of s = b + a z: how many units of label a unit of similarity is worth within a query; each query has
an intercept b of its own. Retrieval selects candidates by z, which leaves the least-squares slope unbiased, unlike a
ratio of standard deviations.

A scale that was calibrated for a collection is used as it is. Without one, each query finds its own: the slope of its
own labels, drawn to a prior that holds for encoders and re-rankers of the usual kind.
"""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats

VERSION = 2
"""Raised by one whenever the same labels begin to give another scale. 1 was found on the first 64 queries of a run."""

# Of all queries together: few candidates say little about a correlation. The estimate starts at this value, with the
# weight of this many; the retriever keeps some weight even where the re-ranker contradicts it.
_CORRELATION, _WEIGHT = 0.4, 20.0
_LEAST = 0.1

# Of one query: the prior slope for similarities whose first candidates have a root mean square of 0.65, as cosines
# have, and for labels that are logits; the spread of such similarities among candidates; and how many candidates it
# counts for. Found on the embedded collection and CACM; docs/method.md has the figures.
_SLOPE, _LEVEL, _SPREAD, _PRIOR_WEIGHT = 27.0, 0.65, 0.04, 30.0
# Labels with another spread than these are not logits: the prior follows their unit.
_LEAST_LABEL_SPREAD, _LARGEST_LABEL_SPREAD = 0.8, 13.0

# Values that differ by less than this share of the largest are equal: the rest is rounding, of float32 too.
_ROUNDING = 1e-6


class Moments(NamedTuple):
    """Sums over the labelled candidates of each of n queries, [n] each; z and s are centred within the query.

    Attributes:
        candidates: how many there are.
        z_z: squared similarities.
        s_s: squared labels.
        z_s: products of both.
        level: root mean square of the similarities, not centred.
    """

    candidates: Floats
    z_z: Floats
    s_s: Floats
    z_s: Floats
    level: Floats


def moments(similarities: Floats, labels: Floats, mask: Flags) -> Moments:
    """What a scale is computed from.

    Args:
        similarities: [n, k] inner products z, unscaled.
        labels: [n, k] labels s.
        mask: [n, k] true where there is a label.
    """
    z, s = _centred(similarities, mask), _centred(labels, mask)
    count = mask.sum(axis=1).astype(np.float64)
    squares = np.where(mask, np.where(mask, similarities, 0).astype(np.float64) ** 2, 0).sum(axis=1)
    return Moments(
        count, (z * z).sum(axis=1), (s * s).sum(axis=1), (z * s).sum(axis=1), np.sqrt(squares / np.maximum(count, 1))
    )


def scale_of_each(found: Moments) -> Floats:
    """The scale [n] of each query by itself, above 0; 1 where it has no similarity other than 0.

    (w v a_0 + sum z s) / (w v + sum z z): least squares with a prior slope a_0 that counts for w candidates whose
    similarities have the variance v. Both are in the units of the query's own similarities and labels.

    Example:
        >>> z = np.array([[0.7, 0.65, 0.6]])
        >>> scale_of_each(moments(z, 3 + 20 * z, z > 0)).round(1)
        array([26.3])
    """
    usable = found.level > 0
    unit = np.where(usable, found.level, 1.0) / _LEVEL
    # Without two different labels nothing is known of their unit: they are taken for logits.
    spread = np.where(found.s_s > 0, np.sqrt(found.s_s / np.maximum(found.candidates - 1, 1)), _LEAST_LABEL_SPREAD)
    prior = _SLOPE / unit * spread / np.clip(spread, _LEAST_LABEL_SPREAD, _LARGEST_LABEL_SPREAD)
    weight = _PRIOR_WEIGHT * (_SPREAD * unit) ** 2
    slope = (weight * prior + found.z_s) / (weight + found.z_z)
    return np.where(usable, np.maximum(slope, _LEAST * prior), 1.0)


def scale_of_all(found: Moments) -> float:
    """One scale for a collection, from the candidates of all queries together, above 0; 1 where nothing can be found.

    Example:
        >>> z = np.repeat([[0.9, 0.7, 0.5]], 999, axis=0)
        >>> round(scale_of_all(moments(z, 3 + 20 * z, z > 0)), 1)
        19.9
    """
    candidates, z_z, s_s, z_s = (float(column.sum()) for column in found[:4])
    if not (z_z > 0 and s_s > 0):
        return 1.0
    correlation = (candidates * z_s / np.sqrt(z_z * s_s) + _WEIGHT * _CORRELATION) / (candidates + _WEIGHT)
    return float(max(correlation, _LEAST) * np.sqrt(s_s / z_z))


def _centred(values: Floats, mask: Flags) -> Floats:
    """The values minus their mean, [n, k]; 0 where there is none, and where all values of a query are equal."""
    values = np.where(mask, values, 0).astype(np.float64)
    means = values.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    centred = np.where(mask, values - means, 0)
    differ = np.abs(centred).max(axis=1, initial=0) > _ROUNDING * np.abs(values).max(axis=1, initial=0)
    return np.where(differ[:, None], centred, 0)
