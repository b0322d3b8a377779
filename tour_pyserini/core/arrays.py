"""The arrays that travel between indexes, methods and the scheduler."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tour_pyserini.errors import TourError

Ids = NDArray[np.int64]
Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]


class Hits(NamedTuple):
    """What an index finds for n queries, best first.

    Attributes:
        ids: [n, m] positions in the index, -1 where a query has fewer than m hits.
        similarities: [n, m] inner products, as the index computes them; minus infinity where there is no hit.
    """

    ids: Ids
    similarities: Floats


class Ranking(NamedTuple):
    """A list of one query, best first.

    Attributes:
        ids: [m] positions in the index.
        scores: [m] never increasing.
    """

    ids: Ids
    scores: Floats

    def first(self, count: int) -> "Ranking":
        """The first `count` documents."""
        return Ranking(self.ids[:count], self.scores[:count])


def cosine(one: Floats, other: Floats) -> float | None:
    """The cosine of two vectors [d]; None if one has length 0."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms else None


def strictly_decreasing(scores: Floats) -> Floats:
    """The same scores to six decimals, lowered just enough that each is below the one before it.

    A run file has six decimals and evaluators sort by score: ties would be ordered by chance.
    """
    if len(scores) and not np.abs(scores).max() < 1e12:
        raise TourError(f"a score of {scores[np.abs(scores).argmax()]:g} does not fit a run file; lower the step size.")
    steps = np.arange(len(scores))
    millionths = np.rint(scores.astype(np.float64) * 1e6).astype(np.int64)
    return (np.minimum.accumulate(millionths + steps) - steps) / 1e6
