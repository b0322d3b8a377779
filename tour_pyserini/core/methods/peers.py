"""Published relatives of TouR, in the same loop and under the same budget: ReFIT, AXN and GAR."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Ids
from tour_pyserini.core.distributions import softmax
from tour_pyserini.core.methods.anchored import Anchored
from tour_pyserini.core.methods.method import Method, uniform
from tour_pyserini.core.posterior import Posterior, posterior
from tour_pyserini.core.settings import POSITIVE, Settings, setting

# ReFIT's Adam: 100 steps of 0.005, for vectors of unit length.
STEPS, RATE = 100, 0.005


@dataclass(frozen=True, kw_only=True)
class RefitSettings(Settings):
    """The settings of ReFIT."""

    tau: float = setting(2.0, "temperature of the re-ranker's probabilities (tau)", rule=POSITIVE)


class Refit(Method):
    """ReFIT: many cheap steps on one labelled list, then one more retrieval.

    Adam on the KL divergence from softmax(s / tau) to softmax(a C q). After "ReFIT: Relevance Feedback from a Reranker
    during Inference" (Gangi Reddy et al., 2023); here the step is a share of the query's length.
    """

    Settings = RefitSettings
    keeps_labels = True
    shared_defaults = MappingProxyType({"iterations": 1, "depth": 30})

    def target(self, candidates: Candidates) -> Floats:
        """softmax(s / tau)."""
        return softmax(candidates.labels.astype(np.float64) / self.settings.tau)

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The query after all steps, from q_0."""
        solved = self.start[rows].astype(np.float64)
        rate = RATE * np.linalg.norm(solved, axis=1, keepdims=True)
        mean, square = np.zeros_like(solved), np.zeros_like(solved)
        for step in range(1, STEPS + 1):
            similarities = candidates.similarities_to(solved)
            surplus = softmax(np.where(candidates.mask, similarities, -np.inf)) - target
            gradient = np.einsum("nk,nkd->nd", surplus, candidates.vectors)
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            solved -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        return solved.astype(query.dtype)


class Regression(Anchored):
    """AXN: the query re-solved by ridge regression on the labels; q_0 only finds the first candidates.

    After "Adaptive Retrieval and Scalable Indexing for k-NN Search with Cross-Encoders" (Yadav et al., 2024). It is
    the anchored method with a prior mean of zero.
    """

    unused_with_signals = ("signal_step", "signal_least_gain")

    def _fit(self, start: Floats, candidates: Candidates) -> Posterior:
        fit = posterior(
            start,
            candidates.vectors,
            candidates.labels,
            candidates.mask,
            slope=0.0,
            anchor=self.settings.anchor,
        )
        # There is no prior query to fall back to, so the spread around q_0 does not count.
        return fit._replace(queries=fit.queries / candidates.scales, prior_spreads=fit.spreads)

    def _fused(self, candidates: Candidates) -> Flags:
        # Signals change its candidates, not how it solves for the query.
        return np.zeros(len(candidates.ids), dtype=bool)


class Graph(Method):
    """GAR: alternates between the query's own candidates and the neighbours of the passage with the highest label.

    After "Adaptive Re-Ranking with a Corpus Graph" (MacAvaney et al., 2022). A search with a passage's vector stands
    for the graph's edges. The query itself never changes: unlabelled documents are ranked by q_0.
    """

    keeps_labels = True
    shared_defaults = MappingProxyType({"iterations": 6, "depth": 5})

    def target(self, candidates: Candidates) -> Floats:
        """All on the candidate with the highest label."""
        best = candidates.labels.max(axis=1, keepdims=True, initial=float("-inf"))
        return uniform(candidates.mask & (candidates.labels >= best))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The best passage's vector; q_0 in every other round and in the last."""
        if t % 2 or t + 1 >= self.rounds:
            return self.start[rows]
        best = target.argmax(axis=1)
        return candidates.vectors[range(len(rows)), best]
