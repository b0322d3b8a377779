"""ReFIT: many cheap steps on one labelled list, then one more retrieval.

Adam on the KL divergence from softmax(s / tau) to softmax(a C q). After "ReFIT: Relevance Feedback from a Reranker
during Inference" (Gangi Reddy et al., 2023); here the step is a share of the query's length.
"""

from dataclasses import dataclass

import numpy as np
from exploring import BudgetSettings

from tour_pyserini.core.arrays import Floats
from tour_pyserini.core.distributions import softmax
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Outcome, Query, Run, Search, StopReason, method, register_method
from tour_pyserini.core.methods.tour import rank
from tour_pyserini.core.settings import POSITIVE, setting

# ReFIT's Adam: 100 steps of 0.005, for vectors of unit length.
STEPS, RATE = 100, 0.005


@dataclass(frozen=True, kw_only=True)
class RefitSettings(BudgetSettings):
    """The settings of ReFIT, which labels once: `budget` candidates."""

    tau: float = setting(2.0, "temperature of the re-ranker's probabilities (tau)", rule=POSITIVE)
    similarity_scale: float = setting(20.0, "factor that puts similarities on a logit scale (a)", rule=POSITIVE)


@method(RefitSettings)
def refit(query: Query, settings: RefitSettings) -> Run:
    """Label the first candidates, fit the query to them, and search again."""
    hits = max(query.hits + settings.budget, 100)
    pool = LabelPool(query)
    found = yield Search(query.vector, hits)
    yield from pool.add(found.ids[: settings.budget])
    if not len(pool):
        return Outcome(query.vector, found, StopReason.DEADLINE if pool.late else StopReason.NO_CANDIDATES)
    q = _fit(query.vector, pool, settings)
    found = yield Search(q, hits)
    stop = StopReason.DEADLINE if pool.late else StopReason.BUDGET
    return Outcome(q, rank(query, q, found, pool, settings.reranker_weight), stop)


def _fit(start: Floats, pool: LabelPool, settings: RefitSettings) -> Floats:
    """The query [d] after all steps, from q_0."""
    target, vectors = softmax(pool.labels / settings.tau), pool.vectors.astype(np.float64)
    q = start.astype(np.float64)
    rate = RATE * np.linalg.norm(q)
    mean, square = np.zeros_like(q), np.zeros_like(q)
    for step in range(1, STEPS + 1):
        predicted = softmax(settings.similarity_scale * (vectors @ q + pool.offsets))
        gradient = (predicted - target) @ vectors
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        q -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return q.astype(start.dtype)


register_method(refit)
