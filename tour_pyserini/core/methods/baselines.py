"""Baselines: dense retrieval, re-ranking, and Pyserini's feedback without a re-ranker, Rocchio (Eq. 6) and average."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids, Ranking
from tour_pyserini.core.distributions import softmax, standardise
from tour_pyserini.core.method import Label, Outcome, Query, Run, Search, StopReason, Vectors, method
from tour_pyserini.core.settings import AT_LEAST_1, NOT_NEGATIVE, SHARE, MethodSettings, setting

# The published code's divisor of similarities before its softmax.
_OFFICIAL_TEMPERATURE = 100.0

# How far documents without a label stay below the labelled ones: no tie in a file of six decimals.
_GAP = 1e-5


@dataclass(frozen=True, kw_only=True)
class FinalScoreSettings(MethodSettings):
    """How labels and similarities make the final score (Section 3.4)."""

    depth: int = setting(10, "candidates retrieved and labelled in each round (k)", rule=AT_LEAST_1)
    score_weight: float = setting(0.5, "share of the label in the final score (lambda)", rule=SHARE)
    similarity_scale: float = setting(
        20.0,
        "factor that puts similarities on a logit scale: 1 for the paper's encoders, more for unit-norm ones",
        rule=NOT_NEGATIVE,
    )
    aggregation: str = setting(
        "linear",
        "final score from raw scores (paper), from probabilities (published code), or from scores that are "
        "standardised within each query",
        choices=("linear", "softmax", "standardised"),
    )


@dataclass(frozen=True, kw_only=True)
class RerankSettings(FinalScoreSettings):
    """The settings of re-ranking."""

    score_weight: float = setting(1.0, "share of the label in the final score (lambda)", rule=SHARE)

    @property
    def most_labels(self) -> int:
        """The depth."""
        return self.depth


@method(MethodSettings)
def dense(query: Query, settings: MethodSettings) -> Run:
    """The retrieval as it is; hybrid retrieval where there are further signals."""
    found = yield Search(query.vector, query.hits)
    return Outcome(query.vector, found, StopReason.ROUNDS)


@method(RerankSettings)
def rerank(query: Query, settings: RerankSettings) -> Run:
    """Label the first candidates, and rank them by lambda s + (1 - lambda) z."""
    found = yield Search(query.vector, max(query.hits, settings.depth))
    first = found.first(settings.depth)
    labels = (yield Label(first.ids)) if len(first.ids) else np.empty(0)
    in_time = ~np.isnan(labels)
    ranking = combine(first.ids[in_time], labels[in_time], first.scores[in_time], found, settings)
    return Outcome(query.vector, ranking, StopReason.ROUNDS if in_time.all() else StopReason.DEADLINE)


def combine(ids: Ids, labels: Floats, similarities: Floats, found: Ranking, settings: FinalScoreSettings) -> Ranking:
    """The final list: labelled candidates by lambda s + (1 - lambda) z, and below them the rest of the retrieval.

    Args:
        ids: [m] the labelled candidates.
        labels: [m] their labels s.
        similarities: [m] their similarities, without the scale.
        found: the retrieval; one number is added to its similarities, so that they end below the others.
        settings: lambda, the scale of similarities, and the form of the sum.
    """
    z: Floats = settings.similarity_scale * similarities.astype(np.float64)
    weight = settings.score_weight
    if settings.aggregation == "softmax":
        labels, z = softmax(labels), softmax(z / _OFFICIAL_TEMPERATURE)
    elif settings.aggregation == "standardised":
        labels, z = standardise(labels), standardise(z)
    combined = weight * labels + (1 - weight) * z
    order = np.argsort(-combined, kind="stable")
    above = set(ids.tolist())
    below = np.array([id_ not in above for id_ in found.ids.tolist()], dtype=bool)
    tail = settings.similarity_scale * found.scores[below].astype(np.float64)
    if len(tail) and len(ids):
        tail += min(0.0, combined[order[-1]] - _GAP - tail.max())
    return Ranking(
        np.concatenate([ids[order], found.ids[below]]),
        np.concatenate([combined[order], tail]),
    )


@dataclass(frozen=True, kw_only=True)
class _FeedbackSettings(MethodSettings):
    """How many candidates give feedback, and how often."""

    depth: int = setting(10, "candidates retrieved in each round (k)", rule=AT_LEAST_1)
    iterations: int = setting(1, "updates of a query (T)", rule=NOT_NEGATIVE)


@dataclass(frozen=True, kw_only=True)
class _RocchioSettings(_FeedbackSettings):
    """Rocchio's three weights."""

    positives: int = setting(3, "how many of the first candidates count as relevant (k')", rule=AT_LEAST_1)
    rocchio_alpha: float = setting(0.9, "Rocchio: weight of the query")
    rocchio_beta: float = setting(0.1, "Rocchio: weight of the mean of the first k' candidates")
    rocchio_gamma: float = setting(0.1, "Rocchio: weight of the mean of the other candidates")


@dataclass(frozen=True, kw_only=True)
class _AverageSettings(_FeedbackSettings):
    """The settings of average feedback."""

    depth: int = setting(3, "candidates that are averaged with the query (k)", rule=AT_LEAST_1)


@method(_RocchioSettings)
def rocchio(query: Query, settings: _RocchioSettings) -> Run:
    """Alpha q + beta mean(first k') - gamma mean(the other candidates)."""

    def update(q: Floats, vectors: Floats) -> Floats:
        return (
            settings.rocchio_alpha * q
            + settings.rocchio_beta * mean_of(vectors[: settings.positives])
            - settings.rocchio_gamma * mean_of(vectors[settings.positives :])
        )

    return (yield from _feed_back(query, settings, update))


@method(_AverageSettings)
def average(query: Query, settings: _AverageSettings) -> Run:
    """The mean of the query and its first candidates."""

    def update(q: Floats, vectors: Floats) -> Floats:
        return (q + vectors.sum(axis=0)) / q.dtype.type(len(vectors) + 1)

    return (yield from _feed_back(query, settings, update))


def _feed_back(query: Query, settings: _FeedbackSettings, update: Callable[[Floats, Floats], Floats]) -> Run:
    """Search, and update the query by the vectors [k, d] of its first candidates, T times; then search once more."""
    q = query.vector
    for t in range(settings.iterations + 1):
        found = yield Search(q, max(query.hits, settings.depth))
        if t == settings.iterations or not len(found.ids):
            break
        vectors = yield Vectors(found.ids[: settings.depth])
        q = update(q, vectors)
    return Outcome(q, found, StopReason.ROUNDS)


def mean_of(vectors: Floats) -> Floats:
    """The mean [d] of vectors [k, d]; zero where there is none."""
    weights = np.full(len(vectors), 1 / max(len(vectors), 1), dtype=vectors.dtype)
    return np.einsum("k,kd->d", weights, vectors)
