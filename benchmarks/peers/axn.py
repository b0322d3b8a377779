"""AXN: the query re-solved by ridge regression on the labels; q_0 only finds the first candidates.

After "Adaptive Retrieval and Scalable Indexing for k-NN Search with Cross-Encoders" (Yadav et al., 2024). The solution
has the length of q_0, so that similarities to both have the same unit.
"""

from dataclasses import dataclass

import numpy as np
from exploring import BudgetSettings

from tour_pyserini.core.arrays import Floats
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Outcome, Query, Run, Search, StopReason, method, register_method
from tour_pyserini.core.methods.tour import rank
from tour_pyserini.core.settings import AT_LEAST_1, POSITIVE, setting


@dataclass(frozen=True, kw_only=True)
class AxnSettings(BudgetSettings):
    """The settings of AXN."""

    depth: int = setting(10, "candidates labelled in each round", rule=AT_LEAST_1)
    ridge: float = setting(
        3.0, "strength of the ridge, in mean squared distances of candidates from their centre", rule=POSITIVE
    )


@method(AxnSettings)
def axn(query: Query, settings: AxnSettings) -> Run:
    """Label the first candidates, solve for the query, search again, until the budget is spent."""
    hits, pool, q = max(query.hits + settings.budget, 100), LabelPool(query), query.vector
    ranking = found = yield Search(q, hits)
    while not pool.late:
        candidates = pool.without(found.ids)[: min(settings.depth, settings.budget - len(pool))]
        if not len(candidates):
            return Outcome(q, ranking, StopReason.BUDGET)
        yield from pool.add(candidates)
        if not len(pool):
            break
        q = _solve(query.vector, pool, settings.ridge)
        found = yield Search(q, hits)
        ranking = rank(query, q, found, pool, settings.reranker_weight)
    return Outcome(q, ranking, StopReason.DEADLINE)


def _solve(start: Floats, pool: LabelPool, ridge: float) -> Floats:
    """argmin_w sum_i (s_i - b - w c_i)^2 + kappa |w|^2, with a free intercept b, scaled to |q_0|; [d]."""
    vectors = pool.vectors.astype(np.float64)
    centred, labels = vectors - vectors.mean(axis=0), pool.labels - pool.labels.mean()
    kappa = ridge * max(float((centred**2).sum(axis=1).mean()), 1e-12)
    weights = np.linalg.solve(centred @ centred.T + kappa * np.eye(len(labels)), labels)
    solved = centred.T @ weights
    norm = np.linalg.norm(solved)
    return (solved * np.linalg.norm(start) / norm if norm > 0 else start).astype(start.dtype)


register_method(axn)
