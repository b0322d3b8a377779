"""The default method: the query re-solved from the encoder's vector and all labels bought so far."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids
from tour_pyserini.core.distributions import softmax
from tour_pyserini.core.methods.method import Method
from tour_pyserini.core.mixing import intercept, odds
from tour_pyserini.core.posterior import Posterior, posterior
from tour_pyserini.core.settings import NOT_NEGATIVE, POSITIVE, Settings, setting

TOP = 10
"""How many of the best labels the expected gain is compared with."""

WORSE = 1.1
"""How much larger leave-one-out errors must become before an update is undone."""

SHOWN_TEMPERATURE = 2.0
"""Temperature of the target that traces show; the regression itself fits the labels and has no target."""


@dataclass(frozen=True, kw_only=True)
class AnchoredSettings(Settings):
    """How firmly the query is held, and when labels are no longer worth their price."""

    anchor: float = setting(
        3.0, "anchored: how firmly the query is held to the encoder's vector (kappa)", rule=POSITIVE, infinite=True
    )
    signal_step: float = setting(
        0.7,
        "anchored: how far labels move a query of which a further signal says something (a step of Rocchio)",
        rule=NOT_NEGATIVE,
    )
    least_gain: float = setting(
        0.2,
        "anchored: stop when the next candidates are expected to hold less than this share of the relevance that "
        "the first ten have; 0: never",
        rule=NOT_NEGATIVE,
    )
    signal_least_gain: float = setting(
        0.1, "the same for queries of which a further signal says something", rule=NOT_NEGATIVE
    )


class Anchored(Method):
    """The posterior mean of a Bayesian linear model of the re-ranker, whose prior is the encoder (docs/method.md).

    No step size and no momentum: each round solves for the query again, from q_0. A query goes back to q_0 if the new
    vector predicts its labels clearly worse than q_0 does, each label from the others.

    A query of which a further signal says something takes a step of Rocchio from q_0 instead, with soft labels: towards
    the mean of its candidates weighted by the odds of their labels, and away from their plain mean.
    """

    Settings = AnchoredSettings
    keeps_labels = True
    estimates_gain = True
    unused_with_signals = ("anchor", "least_gain")

    def __init__(self, settings: Any, queries: Floats, *, rounds: int) -> None:
        super().__init__(settings, queries, rounds=rounds)
        self._intercept, self._spread, self._relevance, self._least = (np.zeros(len(queries)) for _ in range(4))
        self._scale = np.ones(len(queries))

    def target(self, candidates: Candidates) -> Floats:
        """The labels as a distribution, softmax(s / 2): for traces only."""
        return softmax(candidates.labels.astype(np.float64) / SHOWN_TEMPERATURE)

    def nothing_to_gain(self, rows: Ids, offered: Hits) -> Flags:
        """The offered candidates are expected to hold less than `least_gain` of the relevance of the best ten.

        Labels are log-odds of relevance. A candidate whose predicted label is m, with the leave-one-out spread as its
        error, is relevant with probability E[sigmoid(N(m, spread^2))], about sigmoid(m / sqrt(1 + pi spread^2 / 8)).
        """
        return self._expected_relevance(rows, offered) < self._least[rows] * self._relevance[rows]

    def expected_gain(self, rows: Ids, offered: Hits) -> Floats:
        """The relevance that the offered candidates are expected to hold, as a share of that of the best ten."""
        return self._expected_relevance(rows, offered) / np.maximum(self._relevance[rows], 1e-100)

    def _expected_relevance(self, rows: Ids, offered: Hits) -> Floats:
        predicted = self._intercept[rows, None] + self._scale[rows, None] * offered.similarities
        damped = predicted / np.sqrt(1 + np.pi * self._spread[rows, None] ** 2 / 8)
        return np.where(offered.ids >= 0, _sigmoid(damped), 0).sum(axis=1)

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The posterior mean given all labels; q_0 where that predicts them clearly worse; Rocchio's with signals."""
        start, labels, mask = self.start[rows], candidates.labels, candidates.mask
        fit = self._fit(start, candidates)
        worse = fit.spreads > WORSE * fit.prior_spreads
        solved = np.where(worse[:, None], start, fit.queries)
        fused = self._fused(candidates)
        solved = np.where(fused[:, None], self._stepped(start, candidates), solved).astype(query.dtype)
        self._least[rows] = np.where(fused, self.settings.signal_least_gain, self.settings.least_gain)
        similarities = candidates.similarities_to(solved)
        self._scale[rows] = candidates.scales[:, 0]
        self._intercept[rows] = intercept(labels, similarities, mask)[:, 0]
        self._spread[rows] = np.where(worse, fit.prior_spreads, fit.spreads)
        self._relevance[rows] = np.sort(np.where(mask, _sigmoid(labels), 0), axis=1)[:, -TOP:].sum(axis=1)
        return solved

    def _fit(self, start: Floats, candidates: Candidates) -> Posterior:
        return posterior(
            start,
            candidates.vectors,
            candidates.labels,
            candidates.mask,
            slope=candidates.scales[:, 0],
            anchor=self.settings.anchor,
            offsets=candidates.offsets,
        )

    def _fused(self, candidates: Candidates) -> Flags:
        """Whether a further signal says something of each query, [n]."""
        return (np.broadcast_to(candidates.offsets, candidates.ids.shape) != 0).any(axis=1)

    def _stepped(self, start: Floats, candidates: Candidates) -> Floats:
        """q_0 + step u sum_i (w_i - 1 / m) c_i, [n, d], for m labels with the odds w, which sum to 1.

        u = |q_0| / sqrt(mean of |c_i|^2): the step means the same for vectors of any length.
        """
        mask, count = candidates.mask, np.maximum(candidates.mask.sum(axis=1, keepdims=True), 1)
        weights = np.zeros(mask.shape)
        for row, there in enumerate(mask):
            weights[row, there] = odds(candidates.labels[row, there], candidates.labels[row, there])
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        vectors = np.where(mask[..., None], candidates.vectors, 0).astype(np.float64)
        lengths = np.sqrt((vectors**2).sum(axis=(1, 2)) / count[:, 0])
        unit = np.linalg.norm(start.astype(np.float64), axis=1) / np.where(lengths > 0, lengths, 1.0)
        moved = np.einsum("nm,nmd->nd", weights - mask / count, vectors)
        return start + self.settings.signal_step * unit[:, None] * moved


def _sigmoid(logits: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
