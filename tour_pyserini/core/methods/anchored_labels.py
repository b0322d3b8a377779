"""The paper's two losses, held to the encoder's vector and solved to the end on all labels bought so far."""

import math
from abc import abstractmethod

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats
from tour_pyserini.core.labels import log_softmax, marginal, nucleus, softmax
from tour_pyserini.core.methods.anchored import Anchored
from tour_pyserini.core.posterior import Posterior, stiffness

ROUNDS = 30
STEPS = (1.0, 0.5, 0.25, 0.0625)


class AnchoredLabels(Anchored):
    """Newton's method in the span of the candidates.

    With y = a C q the predicted scores, P = softmax(y / tau) and m labels, the objective is

        loss(P)  +  kappa / (2 m tau^2) |a q - a q_0|^2,

    whose solution has the form a q = a q_0 + C^T beta with beta = (m tau / kappa) (T - P): a system as large as there
    are labels. The factor m tau^2 makes kappa mean what it means in the regression: near the solution the soft loss is
    its squared error, weighted by T. Spreads, for stopping and for the guard, are those of the regression.
    """

    @abstractmethod
    def _target(self, scores: Floats, predicted: Floats) -> Floats:
        """T given the labels and the predictions, both [n, m] and divided by tau."""

    @abstractmethod
    def _loss(self, scores: Floats, predicted: Floats) -> Floats:
        """The loss [n] up to a constant."""

    def _fit(self, start: Floats, candidates: Candidates) -> Posterior:
        fit, mask, tau = super()._fit(start, candidates), candidates.mask, self.config.tau
        if math.isinf(self.config.anchor):
            return fit
        vectors = np.where(mask[..., None], candidates.vectors, 0).astype(np.float64)
        scores = np.where(mask, candidates.scores, -np.inf) / tau
        first = np.where(mask, candidates.scale * np.einsum("nmd,nd->nm", vectors, start) / tau, -np.inf)
        gram = np.einsum("nid,njd->nij", vectors, vectors) / tau
        hold = stiffness(vectors, mask, self.config.anchor) / (np.maximum(mask.sum(axis=1), 1) * tau)
        beta = self._solved(scores, first, gram, hold, mask)
        queries = start + np.einsum("nmd,nm->nd", vectors, beta) / candidates.scale
        return fit._replace(queries=queries)

    def _solved(self, scores: Floats, first: Floats, gram: Floats, hold: Floats, mask: Flags) -> Floats:
        """The beta [n, m] at which the gradient vanishes."""

        def predicted(beta: Floats) -> Floats:
            return np.where(mask, first + np.einsum("nij,nj->ni", gram, beta), -np.inf)

        def objective(beta: Floats) -> Floats:
            return self._loss(scores, predicted(beta)) + hold * np.einsum("ni,nij,nj->n", beta, gram, beta) / 2

        beta = np.zeros(mask.shape)
        for _ in range(ROUNDS):
            logits = predicted(beta)
            p = softmax(logits)
            residual = hold[:, None] * beta + np.where(mask, p - self._target(scores, logits), 0)
            # The target's own dependence on q is left out: it only makes the loss flatter, so the step still descends.
            curvature = p[:, :, None] * gram - p[:, :, None] * np.einsum("nj,njk->nk", p, gram)[:, None, :]
            step = np.linalg.solve(curvature + hold[:, None, None] * np.eye(mask.shape[1]), residual[..., None])[..., 0]
            tried = [beta - size * step for size in STEPS] + [beta]
            best = np.argmin([objective(point) for point in tried], axis=0)
            beta = np.stack(tried)[best, np.arange(len(beta))]
        return beta


class AnchoredSoft(AnchoredLabels):
    """KL divergence from softmax(s / tau) (Eq. 11)."""

    def _target(self, scores: Floats, predicted: Floats) -> Floats:
        return softmax(scores)

    def _loss(self, scores: Floats, predicted: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return -np.nansum(softmax(scores) * log_softmax(predicted), axis=1)


class AnchoredHard(AnchoredLabels):
    """Marginal likelihood of the nucleus (Eq. 8)."""

    def target(self, candidates: Candidates) -> Floats:
        """P restricted to the nucleus."""
        return marginal(candidates.similarities / self.config.tau, self._nucleus(candidates))

    def _target(self, scores: Floats, predicted: Floats) -> Floats:
        return marginal(predicted, nucleus(scores, tau=1.0, p=self.config.p))

    def _loss(self, scores: Floats, predicted: Floats) -> Floats:
        members = nucleus(scores, tau=1.0, p=self.config.p)
        inside = np.where(members, np.exp(log_softmax(predicted)), 0).sum(axis=1)
        return -np.log(np.maximum(inside, np.finfo(np.float64).tiny))
