"""A peer: many cheap steps on one labelled list, in the manner of ReFIT."""

import numpy as np

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.labels import softmax
from tour_pyserini.core.methods.base import Method

STEPS, RATE = 100, 0.005


class Refit(Method):
    """Adam on the KL divergence from softmax(s / tau) to softmax(a C q), then one more retrieval.

    After "ReFIT: Relevance Feedback from a Reranker during Inference" (Gangi Reddy et al., 2023), whose 100 steps of
    0.005 are for vectors of unit length: here the step is a share of the query's length.
    """

    keeps = True

    def target(self, candidates: Candidates) -> Floats:
        """softmax(s / tau)."""
        return softmax(candidates.scores.astype(np.float64) / self.config.tau)

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The query after all steps, from q_0."""
        solved = self.start[rows].astype(np.float64)
        rate = RATE * np.linalg.norm(solved, axis=1, keepdims=True)
        mean, square = np.zeros_like(solved), np.zeros_like(solved)
        for step in range(1, STEPS + 1):
            similarities = candidates.scale * np.einsum("nkd,nd->nk", candidates.vectors, solved)
            surplus = softmax(np.where(candidates.mask, similarities, -np.inf)) - target
            gradient = np.einsum("nk,nkd->nd", surplus, candidates.vectors)
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            solved -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        return solved.astype(query.dtype)
