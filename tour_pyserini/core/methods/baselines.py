"""Baselines that never change the query: dense retrieval, and re-ranking."""

from types import MappingProxyType

import numpy as np

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.methods.method import Method


class Rerank(Method):
    """Labels the first retrieval and leaves the query as it is."""

    updates_query = False
    shared_defaults = MappingProxyType({"iterations": 0, "score_weight": 1.0})

    def target(self, candidates: Candidates) -> Floats:
        """No target: zero everywhere."""
        return np.zeros(candidates.mask.shape)

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The query as it is."""
        return query


class Dense(Rerank):
    """Leaves both the query and the retrieval order as they are."""

    needs_labels = False
    shared_defaults = MappingProxyType({"iterations": 0})
