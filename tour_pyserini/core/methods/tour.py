"""The default method: TouR's soft update in units that need no tuning."""

from dataclasses import dataclass

import numpy as np

from tour_pyserini.core.arrays import Floats, Ranking
from tour_pyserini.core.distributions import softmax, standardise
from tour_pyserini.core.fusion import POOL
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Outcome, Query, Run, Search, StopReason, method
from tour_pyserini.core.settings import AT_LEAST_1, NOT_NEGATIVE, MethodSettings, setting

TOP = 10
"""The part of the list in which the labels of a round must change something for another round to be worth it."""
ALONE = 2.0
"""How much more labels count where the vectors are the only signal: sd_0 among the first candidates of one list is
about half of that among those of two."""


@dataclass(frozen=True, kw_only=True)
class TourSettings(MethodSettings):
    """How many labels a query may have, how far they move it, and how much they count in the final list."""

    depth: int = setting(10, "candidates labelled in each round (k)", rule=AT_LEAST_1)
    budget: int = setting(30, "most labels of a query; 0: none", rule=NOT_NEGATIVE)
    step: float = setting(0.7, "how far labels move the query, in lengths of its vector (eta)", rule=NOT_NEGATIVE)
    reranker_weight: float = setting(
        0.4,
        "weight of the re-ranker in the final score (beta), doubled for vectors alone; 0: labels only move the query",
        rule=NOT_NEGATIVE,
    )
    early_stopping: bool = setting(
        True, f"stop after a round that brings at most one of its candidates into the first {TOP}"
    )

    @property
    def most_labels(self) -> int:
        """The budget."""
        return self.budget


@method(TourSettings)
def tour(query: Query, settings: TourSettings) -> Run:
    """Label the nearest candidates without a label, move the query, search again, until labels change little.

    With the labels s_i of all m candidates labelled so far, w = softmax(standardised s), and Eq. 13 from q_0 with
    uniform P:

        q = q_0 + eta u sum_i (w_i - 1 / m) c_i,        u = |q_0| / rms |c_i|
    """
    hits = max(query.hits + settings.budget, POOL)
    pool, q = LabelPool(query), query.vector
    ranking = found = yield Search(q, hits)
    while True:
        candidates = pool.without(found.ids)[: min(settings.depth, settings.budget - len(pool))]
        if not len(candidates):
            spent = len(pool) >= settings.budget
            return Outcome(q, ranking, StopReason.BUDGET if spent else StopReason.NO_CANDIDATES)
        labelled = len(pool)
        yield from pool.add(candidates)
        if len(pool) == labelled:
            return Outcome(q, ranking, StopReason.DEADLINE)

        weights = softmax(standardise(pool.labels))
        q = _step(query.vector, weights, pool.vectors, settings.step)
        found = yield Search(q, hits)
        ranking = rank(query, q, found, pool, settings.reranker_weight)

        if pool.late:
            return Outcome(q, ranking, StopReason.DEADLINE)
        if settings.early_stopping and len({*pool.ids[labelled:].tolist()} & {*ranking.ids[:TOP].tolist()}) <= 1:
            return Outcome(q, ranking, StopReason.LITTLE_CHANGE)


def _step(start: Floats, weights: Floats, vectors: Floats, step: float) -> Floats:
    """q_0 + eta u sum_i (w_i - 1 / m) c_i, [d]; u makes the step mean the same for vectors of any length."""
    vectors = vectors.astype(np.float64)
    length = np.sqrt((vectors * vectors).sum(axis=1).mean())
    unit = np.linalg.norm(start.astype(np.float64)) / length if length > 0 else 0.0
    return (start + step * unit * ((weights - 1 / len(weights)) @ vectors)).astype(start.dtype)


def rank(query: Query, q: Floats, found: Ranking, pool: LabelPool, reranker_weight: float) -> Ranking:
    """Labelled candidates by z_0 + beta sd_0 exp(standardised s), the others by their similarity to q.

    z_0 is the similarity to q_0. The optimised query may give all documents higher similarities than q_0 did: those
    without a label are put on the level of z_0, on which the labelled candidates' means agree.

    Args:
        query: the query, with q_0.
        q: [d] the optimised query.
        found: its retrieval.
        pool: the labelled candidates, one at least.
        reranker_weight: beta; it is doubled where the vectors are the only signal.
    """
    weight = reranker_weight * (1.0 if query.fusion.signals else ALONE)
    first, now = pool.similarities(query.vector), pool.similarities(q)
    labelled = first + weight * query.spread * np.exp(standardise(pool.labels))
    rest = ~pool.has(found.ids)
    others = found.scores[rest] + (first.mean() - now.mean())
    ids, scores = np.concatenate([pool.ids, found.ids[rest]]), np.concatenate([labelled, others])
    order = np.argsort(-scores, kind="stable")
    return Ranking(ids[order], scores[order])
