"""The paper's ablation: interpolation in place of gradient descent (Table 5)."""

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.methods.base import mean_of, uniform
from tour_pyserini.core.methods.hard import Hard


class Interpolation(Hard):
    """q + beta times the mean of the nucleus.

    The paper gives beta = 0.3 and no formula; this is the plainest reading.
    """

    def target(self, candidates: Candidates) -> Floats:
        """Uniform over the nucleus."""
        return uniform(self._nucleus(candidates))

    def step_size(self, t: int) -> None:  # type: ignore[override]
        """No schedule."""
        return None

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One step towards the pseudo-positives; no schedule, no momentum."""
        positives = mean_of(candidates.vectors, self._nucleus(candidates))
        return query + self.config.interpolation_beta * positives
