"""The baseline that only re-ranks: the loop with no update."""

import numpy as np

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.methods.base import Method


class Rerank(Method):
    """Labels the first retrieval and leaves the query as it is."""

    updates = False

    def target(self, candidates: Candidates) -> Floats:
        """No target: zero everywhere."""
        return np.zeros(candidates.mask.shape)

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The query as it is."""
        return query
