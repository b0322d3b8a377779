"""A peer: neighbours of the passages that scored best, in the manner of GAR."""

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.methods.base import Method, uniform


class Graph(Method):
    """Alternates between the query's own candidates and those nearest to the passage that scored best.

    After "Adaptive Re-Ranking with a Corpus Graph" (MacAvaney et al., 2022). A search with a passage's vector stands
    for the graph's edges. The query itself never changes: unlabelled documents are ranked by q_0.
    """

    keeps = True

    def target(self, candidates: Candidates) -> Floats:
        """All on the best candidate."""
        best = candidates.scores.max(axis=1, keepdims=True, initial=float("-inf"))
        return uniform(candidates.mask & (candidates.scores >= best))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The best passage's vector, q_0 every other time and at the end."""
        if t % 2 or t + 1 >= self.config.rounds:
            return self.start[rows]
        best = target.argmax(axis=1)
        return candidates.vectors[range(len(rows)), best]
