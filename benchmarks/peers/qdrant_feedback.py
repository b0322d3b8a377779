"""The relevance-feedback query of Qdrant (naive strategy), on any store.

Qdrant (1.17 and later) scores a passage by a sim(q, x) + c sum (s_i - s_j)^b (sim(v_i, x) - sim(v_j, x)), over all
pairs of labelled passages with s_i > s_j. For inner products, that is a search with the vector a q + c sum over pairs
of (s_i - s_j)^b (v_i - v_j). A few labels are enough, its documentation says; it wants its weights trained for each
collection and re-ranker.
"""

from dataclasses import dataclass

import numpy as np
from exploring import BudgetSettings

from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Outcome, Query, Run, Search, StopReason, method, register_method
from tour_pyserini.core.methods.tour import rank
from tour_pyserini.core.settings import AT_LEAST_1, POSITIVE, setting


@dataclass(frozen=True, kw_only=True)
class QdrantSettings(BudgetSettings):
    """The three weights of the naive strategy; it labels once, `budget` candidates."""

    budget: int = setting(5, "most labels of a query", rule=AT_LEAST_1)
    qdrant_a: float = setting(0.12, "Qdrant's feedback: weight of the query (a)", rule=POSITIVE)
    qdrant_b: float = setting(0.43, "Qdrant's feedback: power of the difference of two labels (b)", rule=POSITIVE)
    qdrant_c: float = setting(0.03, "Qdrant's feedback: weight of a pair of passages (c)", rule=POSITIVE)


@method(QdrantSettings)
def qdrant_feedback(query: Query, settings: QdrantSettings) -> Run:
    """Label the first candidates, and search with the vector that Qdrant's query stands for."""
    hits, pool = max(query.hits + settings.budget, 100), LabelPool(query)
    found = yield Search(query.vector, hits)
    yield from pool.add(found.ids[: settings.budget])
    if not len(pool):
        return Outcome(query.vector, found, StopReason.DEADLINE if pool.late else StopReason.NO_CANDIDATES)
    gaps = np.maximum(pool.labels[:, None] - pool.labels[None, :], 0.0)
    powers = np.where(gaps > 0, gaps**settings.qdrant_b, 0.0)
    weights = powers.sum(axis=1) - powers.sum(axis=0)  # as the better of a pair, and as the worse
    q = settings.qdrant_a * query.vector + settings.qdrant_c * (weights @ pool.vectors.astype(np.float64))
    q = q.astype(query.vector.dtype)
    found = yield Search(q, hits)
    stop = StopReason.DEADLINE if pool.late else StopReason.BUDGET
    return Outcome(q, rank(query, q, found, pool, settings.reranker_weight), stop)


register_method(qdrant_feedback)
