"""The paper's two losses with the anchored prior, minimised fully on all labels bought so far."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats
from tour_pyserini.core.distributions import log_softmax, marginal, nucleus, softmax
from tour_pyserini.core.methods.anchored import Anchored, AnchoredSettings
from tour_pyserini.core.posterior import Posterior, stiffness
from tour_pyserini.core.settings import MASS, POSITIVE, setting

NEWTON_STEPS = 30
STEP_SIZES = (1.0, 0.5, 0.25, 0.0625)
"""Fractions of a Newton step that are tried; the one with the lowest objective is taken."""


@dataclass(frozen=True, kw_only=True)
class AnchoredSoftSettings(AnchoredSettings):
    """The settings of the anchored soft loss."""

    tau: float = setting(2.0, "temperature of the re-ranker's probabilities (tau)", rule=POSITIVE)


@dataclass(frozen=True, kw_only=True)
class AnchoredHardSettings(AnchoredSoftSettings):
    """The settings of the anchored hard loss."""

    p: float = setting(0.5, "mass of re-ranker probability that the pseudo-positives hold", rule=MASS)


class AnchoredLoss(Anchored):
    """Newton's method in the span of the candidates.

    With y = a C q the predicted scores, P = softmax(y / tau) and m labels, the objective is

        loss(P)  +  kappa / (2 m tau^2) |a q - a q_0|^2,

    whose solution has the form a q = a q_0 + C^T beta with beta = (m tau / kappa) (T - P): a system as large as there
    are labels. The factor m tau^2 makes kappa mean what it means in the regression: near the solution the soft loss is
    its squared error, weighted by T. Spreads, for stopping and for the guard, are those of the regression.
    """

    unused_with_signals = ("signal_step", "signal_least_gain")

    @abstractmethod
    def _target(self, labels: Floats, predicted: Floats) -> Floats:
        """T given the labels and the predictions, both [n, m] and divided by tau."""

    @abstractmethod
    def _loss(self, labels: Floats, predicted: Floats) -> Floats:
        """The loss [n] up to a constant."""

    def _fused(self, candidates: Candidates) -> Flags:
        """The loss is minimised with further signals too: they are part of the prior's similarities."""
        return np.zeros(len(candidates.ids), dtype=bool)

    def _fit(self, start: Floats, candidates: Candidates) -> Posterior:
        fit, mask, tau = super()._fit(start, candidates), candidates.mask, self.settings.tau
        if np.isinf(self.settings.anchor):
            return fit
        vectors = np.where(mask[..., None], candidates.vectors, 0).astype(np.float64)
        labels = np.where(mask, candidates.labels, -np.inf) / tau
        first = np.where(mask, candidates.similarities_to(start.astype(np.float64)) / tau, -np.inf)
        gram = np.einsum("nid,njd->nij", vectors, vectors) / tau
        hold = stiffness(vectors, mask, self.settings.anchor) / (np.maximum(mask.sum(axis=1), 1) * tau)
        beta = self._solved(labels, first, gram, hold, mask)
        queries = start + np.einsum("nmd,nm->nd", vectors, beta) / candidates.scales
        return fit._replace(queries=queries)

    def _solved(self, labels: Floats, first: Floats, gram: Floats, hold: Floats, mask: Flags) -> Floats:
        """The beta [n, m] at which the gradient vanishes."""

        def predicted(beta: Floats) -> Floats:
            return np.where(mask, first + np.einsum("nij,nj->ni", gram, beta), -np.inf)

        def objective(beta: Floats) -> Floats:
            return self._loss(labels, predicted(beta)) + hold * np.einsum("ni,nij,nj->n", beta, gram, beta) / 2

        beta = np.zeros(mask.shape)
        for _ in range(NEWTON_STEPS):
            logits = predicted(beta)
            p = softmax(logits)
            residual = hold[:, None] * beta + np.where(mask, p - self._target(labels, logits), 0)
            # The target's own dependence on q is left out: it only makes the loss flatter, so the step still descends.
            curvature = p[:, :, None] * gram - p[:, :, None] * np.einsum("nj,njk->nk", p, gram)[:, None, :]
            step = np.linalg.solve(curvature + hold[:, None, None] * np.eye(mask.shape[1]), residual[..., None])[..., 0]
            tried = [beta - size * step for size in STEP_SIZES] + [beta]
            best = np.argmin([objective(point) for point in tried], axis=0)
            beta = np.stack(tried)[best, np.arange(len(beta))]
        return beta


class AnchoredSoft(AnchoredLoss):
    """KL divergence from softmax(s / tau) (Eq. 11)."""

    Settings = AnchoredSoftSettings

    def _target(self, labels: Floats, predicted: Floats) -> Floats:
        return softmax(labels)

    def _loss(self, labels: Floats, predicted: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return -np.nansum(softmax(labels) * log_softmax(predicted), axis=1)


class AnchoredHard(AnchoredLoss):
    """Marginal likelihood of the nucleus (Eq. 8)."""

    Settings = AnchoredHardSettings

    def target(self, candidates: Candidates) -> Floats:
        """P restricted to the nucleus."""
        return marginal(
            candidates.similarities / self.settings.tau,
            nucleus(candidates.labels, tau=self.settings.tau, p=self.settings.p),
        )

    def _target(self, labels: Floats, predicted: Floats) -> Floats:
        return marginal(predicted, nucleus(labels, tau=1.0, p=self.settings.p))

    def _loss(self, labels: Floats, predicted: Floats) -> Floats:
        members = nucleus(labels, tau=1.0, p=self.settings.p)
        inside = np.where(members, np.exp(log_softmax(predicted)), 0).sum(axis=1)
        return -np.log(np.maximum(inside, np.finfo(np.float64).tiny))
