"""Average pseudo-relevance feedback, as Pyserini has it."""

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Ids
from tour_pyserini.core.methods.base import Method, uniform


class Average(Method):
    """The mean of the query and all its candidates. No re-ranker takes part."""

    labels = False

    def target(self, candidates: Candidates) -> Floats:
        """Uniform over the candidates."""
        return uniform(self._members(candidates))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One round of feedback."""
        members = self._members(candidates)
        count = members.sum(axis=-1, keepdims=True).astype(query.dtype)
        return (query + candidates.vectors.sum(axis=1, where=members[..., None])) / (count + 1)

    def _members(self, candidates: Candidates) -> Flags:
        return candidates.mask


class AverageRerank(Average):
    """Average feedback from the first k' candidates, without labels, and then the last retrieval re-ranked."""

    labels = True

    def buys(self, *, last: bool) -> bool:
        """Only the last."""
        return last

    def _members(self, candidates: Candidates) -> Flags:
        return self._first(candidates)
