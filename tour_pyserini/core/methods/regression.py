"""A peer: the query re-solved by ridge regression on the labels, in the manner of AXN."""

from tour_pyserini.core.candidates import Candidates, Floats
from tour_pyserini.core.methods.anchored import Anchored
from tour_pyserini.core.posterior import Posterior, posterior


class Regression(Anchored):
    """Anchored with a prior that knows nothing of the encoder: q_0 only finds the first candidates.

    After "Adaptive Retrieval and Scalable Indexing for k-NN Search with Cross-Encoders" (Yadav et al., 2024).
    """

    def _fit(self, start: Floats, candidates: Candidates) -> Posterior:
        fit = posterior(
            start, candidates.vectors, candidates.scores, candidates.mask, slope=0.0, anchor=self.config.anchor
        )
        # Nothing to fall back to: the spread around q_0 does not count.
        return fit._replace(queries=fit.queries / candidates.scale, prior_spreads=fit.spreads)
