"""The default: the query re-solved from the encoder's vector and all labels bought so far."""

from typing import TYPE_CHECKING

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids
from tour_pyserini.core.fusion import intercept
from tour_pyserini.core.labels import softmax
from tour_pyserini.core.methods.base import Method
from tour_pyserini.core.posterior import Posterior, posterior

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig

TOP = 10
"""The part of the list whose relevance the next labels are compared with."""

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
        self._intercept, self._spread, self._found = (np.zeros(len(queries)) for _ in range(3))
        self._scale = 1.0

    def target(self, candidates: Candidates) -> Floats:
        """softmax(s / tau): the labels as a distribution, for traces; the rule itself fits the scores."""
        return softmax(candidates.scores.astype(np.float64) / self.config.tau)

    def settled(self, rows: Ids, offered: Hits) -> Flags:
        """What is offered is expected to hold less than `least_gain` of the relevance that the first ten have.

        Scores are log-odds of relevance. One that is predicted as m, with the spread that leaving labels out shows, is
        relevant with the probability E[sigmoid(N(m, spread^2))], about sigmoid(m / sqrt(1 + pi spread^2 / 8)).
        """
        predicted = self._intercept[rows, None] + self._scale * offered.similarities
        damped = predicted / np.sqrt(1 + np.pi * self._spread[rows, None] ** 2 / 8)
        expected = np.where(offered.ids >= 0, _sigmoid(damped), 0).sum(axis=1)
        return expected < self.config.least_gain * self._found[rows]

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The posterior mean given all labels; q_0 where that predicts them clearly worse."""
        start, scores, mask = self.start[rows], candidates.scores, candidates.mask
        fit = self._fit(start, candidates)
        worse = fit.spreads > WORSE * fit.prior_spreads
        solved = np.where(worse[:, None], start, fit.queries).astype(query.dtype)
        similarities = candidates.scale * np.einsum("nkd,nd->nk", candidates.vectors, solved)
        self._scale = candidates.scale
        self._intercept[rows] = intercept(scores, similarities, mask)[:, 0]
        self._spread[rows] = np.where(worse, fit.prior_spreads, fit.spreads)
        self._found[rows] = np.sort(np.where(mask, _sigmoid(scores), 0), axis=1)[:, -TOP:].sum(axis=1)
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


def _sigmoid(logits: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
