"""Pseudo-relevance feedback without a re-ranker, as Pyserini has it: Rocchio (Eq. 6) and average."""

from dataclasses import dataclass

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.core.method import Outcome, Query, Run, Search, StopReason, Vectors, method
from tour_pyserini.core.settings import AT_LEAST_1, NOT_NEGATIVE, MethodSettings, setting


@dataclass(frozen=True, kw_only=True)
class FeedbackSettings(MethodSettings):
    """How many candidates give feedback, and how often."""

    depth: int = setting(10, "candidates retrieved in each round (k)", rule=AT_LEAST_1)
    iterations: int = setting(1, "updates of a query (T)", rule=NOT_NEGATIVE)


@dataclass(frozen=True, kw_only=True)
class RocchioSettings(FeedbackSettings):
    """Rocchio's three weights."""

    positives: int = setting(3, "how many of the first candidates count as relevant (k')", rule=AT_LEAST_1)
    rocchio_alpha: float = setting(0.9, "Rocchio: weight of the query")
    rocchio_beta: float = setting(0.1, "Rocchio: weight of the mean of the first k' candidates")
    rocchio_gamma: float = setting(0.1, "Rocchio: weight of the mean of the other candidates")


@dataclass(frozen=True, kw_only=True)
class AverageSettings(FeedbackSettings):
    """The settings of average feedback."""

    depth: int = setting(3, "candidates that are averaged with the query (k)", rule=AT_LEAST_1)


@method(RocchioSettings)
def rocchio(query: Query, settings: RocchioSettings) -> Run:
    """Alpha q + beta mean(first k') - gamma mean(the other candidates)."""
    q = query.vector
    for t in range(settings.iterations + 1):
        found = yield Search(q, max(query.hits, settings.depth))
        if t == settings.iterations or not len(found.ids):
            break
        vectors = yield Vectors(found.ids[: settings.depth])
        q = (
            settings.rocchio_alpha * q
            + settings.rocchio_beta * mean_of(vectors[: settings.positives])
            - settings.rocchio_gamma * mean_of(vectors[settings.positives :])
        )
    return Outcome(q, found, StopReason.ROUNDS)


@method(AverageSettings)
def average(query: Query, settings: AverageSettings) -> Run:
    """The mean of the query and its first candidates."""
    q = query.vector
    for t in range(settings.iterations + 1):
        found = yield Search(q, max(query.hits, settings.depth))
        if t == settings.iterations or not len(found.ids):
            break
        vectors = yield Vectors(found.ids[: settings.depth])
        q = (q + vectors.sum(axis=0)) / q.dtype.type(len(vectors) + 1)
    return Outcome(q, found, StopReason.ROUNDS)


def mean_of(vectors: Floats) -> Floats:
    """The mean [d] of vectors [k, d]; zero where there is none."""
    weights = np.full(len(vectors), 1 / max(len(vectors), 1), dtype=vectors.dtype)
    return np.einsum("k,kd->d", weights, vectors)
