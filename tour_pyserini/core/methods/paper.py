"""The paper's methods: gradient descent on the query with hard or soft pseudo-labels, and two ablations.

With candidates C [k, d], similarities z = C q, P = softmax(z) and a target distribution T over the candidates, every
loss has the gradient C^T (P - T). Methods differ in T, and in when they stop.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Flags, Floats, Ids, Ranking
from tour_pyserini.core.distributions import marginal, nucleus, softmax
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Outcome, Query, Request, Run, Search, StopReason, method
from tour_pyserini.core.methods.baselines import FinalScoreSettings, combine, mean_of
from tour_pyserini.core.settings import AT_LEAST_1, BELOW_1, MASS, NOT_NEGATIVE, POSITIVE, setting
from tour_pyserini.errors import TourError


@dataclass(frozen=True, kw_only=True)
class _RoundSettings(FinalScoreSettings):
    """Rounds of retrieval, labels and updates."""

    iterations: int = setting(3, "most updates of a query (T)", rule=NOT_NEGATIVE)
    budget: int = setting(
        0, "most labels of a query; 0: as many as its rounds need, depth x (iterations + 1)", rule=NOT_NEGATIVE
    )
    early_stopping: bool = setting(True, "stop a query once its first candidate agrees with the labels")
    final_list: str = setting(
        "last", "rank the last retrieval, or the union of all labelled candidates", choices=("last", "union")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget > self.depth * (self.iterations + 1):
            raise TourError(
                f"budget {self.budget} changes nothing: a query has at most {self.depth * (self.iterations + 1)} "
                "labels, depth x (iterations + 1); leave it out."
            )

    @property
    def most_labels(self) -> int:
        """The budget, or what all rounds together may label."""
        return self.budget or self.depth * (self.iterations + 1)


@dataclass(frozen=True, kw_only=True)
class _GradientSettings(_RoundSettings):
    """Stochastic gradient descent with momentum, weight decay and a linear schedule."""

    learning_rate: float = setting(0.2, "step size before its linear decay (eta)", rule=NOT_NEGATIVE)
    momentum: float = setting(0.0, "momentum of gradient descent; the paper's is 0.99", rule=BELOW_1)
    weight_decay: float = setting(0.01, "weight decay of gradient descent (lambda_decay)", rule=NOT_NEGATIVE)
    gradient_clip: float = setting(math.inf, "largest gradient norm; the published code uses 1", rule=POSITIVE)


@dataclass(frozen=True, kw_only=True)
class HardSettings(_GradientSettings):
    """The settings of TouR with hard pseudo-labels."""

    p: float = setting(0.5, "mass of re-ranker probability that the pseudo-positives hold", rule=MASS)
    tau: float = setting(2.0, "temperature of the re-ranker's probabilities (tau); the paper's is 0.5", rule=POSITIVE)


@dataclass(frozen=True, kw_only=True)
class _SoftSettings(HardSettings):
    """The settings of TouR with soft pseudo-labels; p is for the published code's stop only."""

    stopping: str = setting(
        "method",
        "stop when the first candidate has the highest label (paper), or when it is in the nucleus (published code)",
        choices=("method", "nucleus"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stopping == "method" and self.p != HardSettings.p:
            raise TourError("p changes nothing for the method soft unless stopping is nucleus; leave it out.")


@dataclass(frozen=True, kw_only=True)
class _TopSettings(_GradientSettings):
    """The settings of the ablation with the first k' candidates."""

    positives: int = setting(3, "how many of the first candidates count as relevant (k')", rule=AT_LEAST_1)


@dataclass(frozen=True, kw_only=True)
class _InterpolationSettings(_RoundSettings):
    """The settings of the ablation without gradient descent."""

    p: float = setting(0.5, "mass of re-ranker probability that the pseudo-positives hold", rule=MASS)
    tau: float = setting(2.0, "temperature of the re-ranker's probabilities (tau); the paper's is 0.5", rule=POSITIVE)
    interpolation_beta: float = setting(0.3, "interpolation: weight of the mean of the pseudo-positives")


@method(HardSettings)
def hard(query: Query, settings: HardSettings) -> Run:
    """Maximise the marginal likelihood of the nucleus C_hard (Section 3.2)."""
    q, pool, descent = query.vector, LabelPool(query), Descent(settings)
    for t in range(settings.iterations + 1):
        found = yield Search(q, max(query.hits, settings.depth))
        c = yield from _label_first(found, q, pool, settings)
        positives = nucleus(c.labels, tau=settings.tau, p=settings.p)  # C_hard, Eq. 7
        if stop := _stop(t, c, pool, settings, agrees=positives[:1]):
            break
        target = marginal(c.similarities, positives)  # Eq. 8
        q = descent.step(q, c, target, t)
    return Outcome(q, _final_list(q, found, pool, settings), stop or StopReason.ROUNDS)


@method(_SoftSettings)
def soft(query: Query, settings: _SoftSettings) -> Run:
    """Minimise the KL divergence from the re-ranker's distribution (Section 3.3)."""
    q, pool, descent = query.vector, LabelPool(query), Descent(settings)
    for t in range(settings.iterations + 1):
        found = yield Search(q, max(query.hits, settings.depth))
        c = yield from _label_first(found, q, pool, settings)
        if settings.stopping == "nucleus":
            agrees = nucleus(c.labels, tau=settings.tau, p=settings.p)[:1]
        else:
            agrees = c.labels[:1] >= c.labels.max(initial=-math.inf)
        if stop := _stop(t, c, pool, settings, agrees=agrees):
            break
        target = softmax(c.labels / settings.tau)  # Eq. 10
        q = descent.step(q, c, target, t)  # Eq. 13
    return Outcome(q, _final_list(q, found, pool, settings), stop or StopReason.ROUNDS)


@method(_TopSettings)
def top(query: Query, settings: _TopSettings) -> Run:
    """Ablation (Table 5): the k' most similar candidates in place of the nucleus.

    The first candidate is one of them by construction, so agreement means nothing and every round is run.
    """
    q, pool, descent = query.vector, LabelPool(query), Descent(settings)
    for t in range(settings.iterations + 1):
        found = yield Search(q, max(query.hits, settings.depth))
        c = yield from _label_first(found, q, pool, settings)
        if stop := _stop(t, c, pool, settings, agrees=np.zeros(1, dtype=bool)):
            break
        target = marginal(c.similarities, np.arange(len(c.ids)) < settings.positives)
        q = descent.step(q, c, target, t)
    return Outcome(q, _final_list(q, found, pool, settings), stop or StopReason.ROUNDS)


@method(_InterpolationSettings)
def interpolation(query: Query, settings: _InterpolationSettings) -> Run:
    """Ablation (Table 5): q + beta times the mean of the nucleus, in place of gradient descent.

    The paper gives beta = 0.3 and no formula; this is the plainest reading. No schedule, no momentum.
    """
    q, pool = query.vector, LabelPool(query)
    for t in range(settings.iterations + 1):
        found = yield Search(q, max(query.hits, settings.depth))
        c = yield from _label_first(found, q, pool, settings)
        positives = nucleus(c.labels, tau=settings.tau, p=settings.p)
        if stop := _stop(t, c, pool, settings, agrees=positives[:1]):
            break
        q = q + settings.interpolation_beta * mean_of(c.vectors[positives])
    return Outcome(q, _final_list(q, found, pool, settings), stop or StopReason.ROUNDS)


class Candidates(NamedTuple):
    """The labelled candidates of a round, in the order of the retrieval.

    Attributes:
        ids: [k] positions in the index.
        vectors: [k, d] their vectors C.
        similarities: [k] scaled similarities z.
        labels: [k] re-ranker scores s.
    """

    ids: Ids
    vectors: Floats
    similarities: Floats
    labels: Floats


class Descent:
    """SGD as PyTorch's: g += decay q;  v = momentum v + g, starting at the first g;  q -= eta_t v."""

    def __init__(self, settings: _GradientSettings) -> None:
        """Begin without velocity."""
        self._settings = settings
        self._velocity: Floats | float = 0.0

    def step(self, q: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The query after one step, with the linear schedule eta_t = eta (T - t) / T (Eq. 9)."""
        settings = self._settings
        descent = _clip(gradient(candidates, target), settings.gradient_clip) + settings.weight_decay * q
        self._velocity = settings.momentum * self._velocity + descent
        return q - settings.learning_rate * (settings.iterations - t) / settings.iterations * self._velocity


def gradient(candidates: Candidates, target: Floats) -> Floats:
    """The loss's gradient with respect to the query: C^T (P - T), [d], with P = softmax(z).

    Similarities may carry a scale s, z = s C q. That is the same as multiplying both encoders by sqrt(s): in the scaled
    space the gradient is sqrt(s) C^T (P - T), and dividing by sqrt(s) to return to q leaves no factor.
    """
    weights = (softmax(candidates.similarities) - target).astype(candidates.vectors.dtype)
    return np.einsum("k,kd->d", weights, candidates.vectors)


def _label_first(
    found: Ranking, q: Floats, pool: LabelPool, settings: _RoundSettings
) -> Generator[Request, Any, Candidates]:
    """Label the first k candidates of a retrieval; where the budget ends, take the nearest that have a label."""
    first = found.ids[: settings.depth]
    yield from pool.add(pool.without(first)[: settings.most_labels - len(pool)])
    at, similarities = pool.positions(first), pool.similarities(q)
    if len(at) < len(first):
        at = np.argsort(-similarities, kind="stable")[: settings.depth]
    return Candidates(pool.ids[at], pool.vectors[at], settings.similarity_scale * similarities[at], pool.labels[at])


def _stop(
    t: int, candidates: Candidates, pool: LabelPool, settings: _RoundSettings, *, agrees: Flags
) -> StopReason | None:
    """Why a query stops before its update after retrieval t = 0, 1, ...; None if it goes on.

    `agrees` [0 or 1]: whether the first candidate agrees with the labels.
    """
    if pool.late:
        return StopReason.DEADLINE
    if not len(candidates.ids):
        return StopReason.NO_CANDIDATES
    if settings.early_stopping and agrees.any() and t < settings.iterations:
        return StopReason.AGREEMENT
    return StopReason.ROUNDS if t == settings.iterations else None


def _final_list(q: Floats, found: Ranking, pool: LabelPool, settings: _RoundSettings) -> Ranking:
    """The labelled candidates of the last retrieval, or of all, by labels and similarities; then the rest."""
    at = pool.positions(pool.ids if settings.final_list == "union" else found.ids[: settings.depth])
    return combine(pool.ids[at], pool.labels[at], pool.similarities(q)[at], found, settings)


def _clip(vector: Floats, largest: float) -> Floats:
    norm = float(np.linalg.norm(vector))
    return vector * min(1.0, largest / norm) if norm > 0 else vector
