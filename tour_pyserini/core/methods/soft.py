"""TouR with soft labels (Section 3.3)."""

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats
from tour_pyserini.core.labels import softmax
from tour_pyserini.core.methods.gradient import GradientMethod


class Soft(GradientMethod):
    """Minimises the KL divergence from the re-ranker's distribution (Eq. 11)."""

    def target(self, candidates: Candidates) -> Floats:
        """softmax(s / tau)."""
        return softmax(candidates.scores.astype(np.float64) / self.config.tau)

    def agrees(self, candidates: Candidates) -> Flags:
        """The first hit has the highest score; the published code asks whether it is in the nucleus."""
        if self.config.stopping == "nucleus":
            return self._nucleus(candidates)[:, 0]
        return candidates.scores[:, 0] >= candidates.scores.max(axis=-1)
