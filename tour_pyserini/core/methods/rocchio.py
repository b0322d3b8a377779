"""Rocchio's pseudo-relevance feedback (Eq. 6)."""

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.methods.base import Method, mean_of, uniform


class Rocchio(Method):
    """alpha q + beta mean(first k') - gamma mean(the other candidates). No re-ranker takes part."""

    labels = False

    def target(self, candidates: Candidates) -> Floats:
        """Uniform over the first k'."""
        return uniform(self._first(candidates))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One round of feedback; no schedule, no momentum."""
        positives = self._first(candidates)
        return (
            self.config.rocchio_alpha * query
            + self.config.rocchio_beta * mean_of(candidates.vectors, positives)
            - self.config.rocchio_gamma * mean_of(candidates.vectors, candidates.mask & ~positives)
        )


class RocchioRerank(Rocchio):
    """Rocchio's feedback without labels, and then the last retrieval re-ranked."""

    labels = True

    def buys(self, *, last: bool) -> bool:
        """Only the last."""
        return last
