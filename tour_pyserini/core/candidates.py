"""The arrays that travel through the loop."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]


class Hits(NamedTuple):
    """What a search returns for n queries, best first.

    Attributes:
        ids: [n, m] positions in the index, -1 where a query has fewer than m hits.
        similarities: [n, m] inner products, as the index computes them.
    """

    ids: Ids
    similarities: Floats

    def without(self, rows: Flags) -> "Hits":
        """The same hits, with none for the queries that are true in `rows` [n]."""
        return Hits(np.where(rows[:, None], -1, self.ids), np.where(rows[:, None], -np.inf, self.similarities))


class Candidates(NamedTuple):
    """Candidates of n queries, with what the update rules need.

    Attributes:
        ids: [n, k] positions in the index, -1 where a query has fewer than k candidates.
        vectors: [n, k, d] candidate vectors C, zero where there is no candidate.
        similarities: [n, k] scaled similarities z, minus infinity where there is no candidate.
        labels: [n, k] re-ranker scores s; minus infinity where there is no candidate, NaN where one has no label.
        scale: [n], or one number for all, the factor in z that puts similarities on the scale of labels.
        offsets: [n, k], or one number for all, what further first-stage signals add to q c, before the factor.
    """

    ids: Ids
    vectors: Floats
    similarities: Floats
    labels: Floats
    scale: Floats | float = 1.0
    offsets: Floats | float = 0.0

    @property
    def mask(self) -> Flags:
        """[n, k] true where there is a candidate."""
        return self.ids >= 0

    @property
    def scales(self) -> Floats:
        """[n, 1] the factor of each query."""
        return np.broadcast_to(np.asarray(self.scale, dtype=np.float64), len(self.ids))[:, None]

    def similarities_to(self, queries: Floats) -> Floats:
        """[n, k] the scaled similarities z of the candidates to other vectors [n, d] of their queries."""
        return self.scales * (np.einsum("nkd,nd->nk", self.vectors, queries) + self.offsets)

    def only(self, rows: Flags) -> "Candidates":
        """The candidates of the queries that are true in `rows` [n]."""
        return Candidates(
            self.ids[rows],
            self.vectors[rows],
            self.similarities[rows],
            self.labels[rows],
            self.scales[rows, 0],
            np.broadcast_to(self.offsets, self.ids.shape)[rows],
        )
