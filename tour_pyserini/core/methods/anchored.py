"""The default: the query re-solved from the encoder's vector and all labels bought so far."""

from typing import TYPE_CHECKING

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids
from tour_pyserini.core.fusion import intercept, mixed
from tour_pyserini.core.labels import softmax
from tour_pyserini.core.methods.base import Method
from tour_pyserini.core.posterior import Posterior, posterior

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig

TOP = 10
"""The part of the list that another label has to change to be worth its price."""

WORSE = 1.1
"""How much larger errors have to become before an update is taken back."""


class Anchored(Method):
    """The posterior mean of a Bayesian linear model of the re-ranker, whose prior is the encoder (docs/method.md).

    No step size and no momentum: each round solves for the query anew, from q_0. A query whose labels are predicted
    clearly worse by the new vector than by q_0, each label by the others, stays at q_0.
    """

    keeps = True

    def __init__(self, config: "TourConfig", queries: Floats) -> None:
        super().__init__(config, queries)
        self._expected, self._spread, self._bar = (np.zeros(len(queries)) for _ in range(3))
        self._scale = 1.0

    def target(self, candidates: Candidates) -> Floats:
        """softmax(s / tau): the labels as a distribution, for traces; the rule itself fits the scores."""
        return softmax(candidates.scores.astype(np.float64) / self.config.tau)

    def settled(self, rows: Ids, offered: Hits) -> Flags:
        """Fewer than `least_changes` of what is offered are expected to enter the first ten.

        A candidate of predicted score m, b + a z, enters with probability P(m + noise > the tenth's score), where the
        noise is what leaving labels out and predicting them shows.
        """
        with np.errstate(invalid="ignore"):
            predicted = self._expected[rows, None] + self._scale * offered.similarities
            distance = (predicted - self._bar[rows, None]) / np.maximum(self._spread[rows, None], 1e-9)
        # 1.702: the logistic curve nearest to the normal distribution's.
        entering = np.where(offered.ids >= 0, 1 / (1 + np.exp(-1.702 * np.clip(distance, -40, 40))), 0)
        return (entering.sum(axis=1) < self.config.least_changes) & (self._spread[rows] > 0)

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The posterior mean given all labels; q_0 where that predicts them clearly worse."""
        start, scores, mask = self.start[rows], candidates.scores, candidates.mask
        fit = self._fit(start, candidates)
        spread = np.minimum(fit.spreads, fit.prior_spreads)
        worse = fit.spreads > WORSE * fit.prior_spreads
        solved = np.where(worse[:, None], start, fit.queries).astype(query.dtype)
        now, first = (
            candidates.scale * np.einsum("nkd,nd->nk", candidates.vectors, vectors) for vectors in (solved, start)
        )
        weight = self.config.score_weight
        final = np.where(mask, mixed(scores, first, mask, weight), -np.inf)
        self._scale = candidates.scale
        self._expected[rows] = intercept(scores, now, mask)[:, 0]
        self._spread[rows] = weight * spread
        self._bar[rows] = np.sort(final, axis=1)[:, -min(TOP, final.shape[1])] if final.shape[1] else -np.inf
        return solved

    def _fit(self, start: Floats, candidates: Candidates) -> Posterior:
        return posterior(
            start,
            candidates.vectors,
            candidates.scores,
            candidates.mask,
            slope=candidates.scale,
            anchor=self.config.anchor,
        )
