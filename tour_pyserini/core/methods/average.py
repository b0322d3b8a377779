"""Average pseudo-relevance feedback, as Pyserini has it."""

from tour_pyserini.core.candidates import Candidates, Floats
from tour_pyserini.core.methods.base import Method, uniform


class Average(Method):
    """The mean of the query and all its candidates. No re-ranker takes part."""

    labels = False

    def target(self, candidates: Candidates) -> Floats:
        """Uniform over the candidates."""
        return uniform(candidates.mask)

    def update(
        self, query: Floats, velocity: Floats, candidates: Candidates, target: Floats, t: int
    ) -> tuple[Floats, Floats]:
        """One round of feedback."""
        count = candidates.mask.sum(axis=-1, keepdims=True).astype(query.dtype)
        return (query + candidates.vectors.sum(axis=1)) / (count + 1), velocity
