"""The paper's methods: gradient descent on the query with hard or soft pseudo-labels, and two ablations."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Ids
from tour_pyserini.core.distributions import marginal, nucleus, softmax
from tour_pyserini.core.methods.feedback import PositivesSettings
from tour_pyserini.core.methods.method import Method, first_candidates, mean_of, uniform
from tour_pyserini.core.settings import BELOW_1, MASS, NOT_NEGATIVE, POSITIVE, Settings, setting


@dataclass(frozen=True, kw_only=True)
class GradientSettings(Settings):
    """Stochastic gradient descent with momentum, weight decay and a linear schedule."""

    learning_rate: float = setting(0.2, "step size before its linear decay (eta)", rule=NOT_NEGATIVE)
    momentum: float = setting(0.0, "momentum of gradient descent; the paper's is 0.99", rule=BELOW_1)
    weight_decay: float = setting(0.01, "weight decay of gradient descent (lambda_decay)", rule=NOT_NEGATIVE)
    gradient_clip: float = setting(
        math.inf, "largest gradient norm; the published code uses 1", rule=POSITIVE, infinite=True
    )


@dataclass(frozen=True, kw_only=True)
class NucleusSettings(Settings):
    """How labels become pseudo-positives."""

    p: float = setting(0.5, "mass of re-ranker probability that the pseudo-positives hold", rule=MASS)
    tau: float = setting(2.0, "temperature of the re-ranker's probabilities (tau); the paper's is 0.5", rule=POSITIVE)
    stopping: str = setting(
        "method",
        "stop on the method's own test (paper), or on the nucleus always (published code)",
        choices=("method", "nucleus"),
    )


@dataclass(frozen=True, kw_only=True)
class TourSettings(NucleusSettings, GradientSettings):
    """The settings of TouR, hard and soft."""


@dataclass(frozen=True, kw_only=True)
class TopSettings(PositivesSettings, GradientSettings):
    """The settings of the ablation with the first k' candidates."""


@dataclass(frozen=True, kw_only=True)
class InterpolationSettings(NucleusSettings):
    """The settings of the ablation without gradient descent."""

    interpolation_beta: float = setting(0.3, "interpolation: weight of the mean of the pseudo-positives")


def gradient(candidates: Candidates, target: Floats) -> Floats:
    """The loss's gradient with respect to the query: C^T (P - T), [n, d], with P = softmax(z).

    Similarities may carry a scale s, z = s C q. That is the same as multiplying both encoders by sqrt(s): in the scaled
    space the gradient is sqrt(s) C^T (P - T), and dividing by sqrt(s) to return to q leaves no factor.
    """
    weights = (softmax(candidates.similarities) - target).astype(candidates.vectors.dtype)
    return np.einsum("nk,nkd->nd", weights, candidates.vectors)


class GradientMethod(Method):
    """SGD as PyTorch's: g += decay q;  v = momentum v + g, starting at the first g;  q -= eta_t v."""

    Settings = GradientSettings

    def __init__(self, settings: Any, queries: Floats, *, rounds: int) -> None:
        super().__init__(settings, queries, rounds=rounds)
        self._velocity = np.zeros_like(queries)

    def step_size(self, t: int) -> float | None:
        """Linear schedule: eta (T - t) / T."""
        return self._rate(t)

    def _rate(self, t: int) -> float:
        return self.settings.learning_rate * (self.rounds - t) / self.rounds

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One step of gradient descent."""
        settings = self.settings
        descent = _clipped(gradient(candidates, target), settings.gradient_clip) + settings.weight_decay * query
        self._velocity[rows] = settings.momentum * self._velocity[rows] + descent
        return query - self._rate(t) * self._velocity[rows]


class Hard(GradientMethod):
    """Maximises the marginal likelihood of the nucleus C_hard (Section 3.2, Eq. 8)."""

    Settings = TourSettings

    def target(self, candidates: Candidates) -> Floats:
        """P restricted to the nucleus."""
        return marginal(candidates.similarities, _nucleus(candidates, self.settings))

    def agrees(self, candidates: Candidates) -> Flags:
        """The first candidate is a pseudo-positive."""
        return _nucleus(candidates, self.settings)[:, 0]


class Soft(GradientMethod):
    """Minimises the KL divergence from the re-ranker's distribution (Section 3.3, Eq. 11)."""

    Settings = TourSettings

    def target(self, candidates: Candidates) -> Floats:
        """softmax(s / tau)."""
        return softmax(candidates.labels.astype(np.float64) / self.settings.tau)

    def agrees(self, candidates: Candidates) -> Flags:
        """The first candidate has the highest label; the published code tests whether it is in the nucleus."""
        if self.settings.stopping == "nucleus":
            return _nucleus(candidates, self.settings)[:, 0]
        return candidates.labels[:, 0] >= candidates.labels.max(axis=-1)


class Top(GradientMethod):
    """Ablation (Table 5): the k' most similar candidates in place of the nucleus.

    The first candidate is one of them by construction, so agreement means nothing and every round is run.
    """

    Settings = TopSettings

    def target(self, candidates: Candidates) -> Floats:
        """P restricted to the first k'."""
        return marginal(candidates.similarities, first_candidates(candidates, self.settings.positives))


class Interpolation(Method):
    """Ablation (Table 5): q + beta times the mean of the nucleus, in place of gradient descent.

    The paper gives beta = 0.3 and no formula; this is the plainest reading.
    """

    Settings = InterpolationSettings

    def target(self, candidates: Candidates) -> Floats:
        """Uniform over the nucleus."""
        return uniform(_nucleus(candidates, self.settings))

    def agrees(self, candidates: Candidates) -> Flags:
        """The first candidate is a pseudo-positive."""
        return _nucleus(candidates, self.settings)[:, 0]

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One step towards the pseudo-positives; no schedule, no momentum."""
        return query + self.settings.interpolation_beta * mean_of(
            candidates.vectors, _nucleus(candidates, self.settings)
        )


def _nucleus(candidates: Candidates, settings: NucleusSettings) -> Flags:
    return nucleus(candidates.labels, tau=settings.tau, p=settings.p)


def _clipped(vectors: Floats, largest: float) -> Floats:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors * np.minimum(1, largest / np.maximum(norms, np.finfo(vectors.dtype).tiny)).astype(vectors.dtype)
