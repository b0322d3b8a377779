"""The paper's ablation: the first k' candidates in place of the nucleus (Table 5)."""

from tour_pyserini.core.candidates import Candidates, Floats
from tour_pyserini.core.labels import marginal
from tour_pyserini.core.methods.gradient import GradientMethod


class Top(GradientMethod):
    """Takes the k' most similar candidates as pseudo-positives.

    The first hit is one of them by construction, so agreement says nothing and every iteration is run.
    """

    def target(self, candidates: Candidates) -> Floats:
        """P restricted to the first k'."""
        return marginal(candidates.similarities, self._first(candidates))
