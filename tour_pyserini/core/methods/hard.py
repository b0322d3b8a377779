"""TouR with hard labels (Section 3.2)."""

from tour_pyserini.core.candidates import Candidates, Flags, Floats
from tour_pyserini.core.labels import marginal
from tour_pyserini.core.methods.gradient import GradientMethod


class Hard(GradientMethod):
    """Maximises the marginal likelihood of the nucleus C_hard (Eq. 8)."""

    def target(self, candidates: Candidates) -> Floats:
        """P restricted to the nucleus."""
        return marginal(candidates.similarities, self._nucleus(candidates))

    def agrees(self, candidates: Candidates) -> Flags:
        """The first hit is a pseudo-positive."""
        return self._nucleus(candidates)[:, 0]
