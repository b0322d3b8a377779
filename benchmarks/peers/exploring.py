"""What peers share that leave the query as it is and choose by labels where to look next."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Ids, Ranking
from tour_pyserini.core.fusion import POOL
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Outcome, Query, Request, Run, Search, StopReason
from tour_pyserini.core.methods.tour import rank
from tour_pyserini.core.settings import AT_LEAST_1, NOT_NEGATIVE, MethodSettings, setting


@dataclass(frozen=True, kw_only=True)
class BudgetSettings(MethodSettings):
    """How many labels a query may have, and how they count in the final list, which is that of the default method."""

    depth: int = setting(5, "candidates labelled in each round", rule=AT_LEAST_1)
    budget: int = setting(30, "most labels of a query", rule=AT_LEAST_1)
    reranker_weight: float = setting(0.4, "weight of the re-ranker in the final score", rule=NOT_NEGATIVE)

    @property
    def most_labels(self) -> int:
        """The budget."""
        return self.budget


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings(BudgetSettings):
    """How many edges a document has in the corpus graph: what a search with its vector finds."""

    neighbours: int = setting(16, "neighbours of a document in the corpus graph", rule=AT_LEAST_1)


Choose = Callable[[int, Ranking, LabelPool], Generator[Request, Any, Ids]]
"""The documents to label in a round t = 0, 1, ..., best first, given the retrieval and the labels so far."""


def explore(query: Query, settings: BudgetSettings, choose: Choose, *, hits: int = POOL) -> Run:
    """Label what `choose` wants, `depth` at a time, and then the retrieval, until the budget is spent."""
    pool = LabelPool(query)
    found = yield Search(query.vector, max(query.hits + settings.budget, hits))
    for t in range(settings.budget):
        wanted = yield from choose(t, found, pool)
        room = min(settings.depth, settings.budget - len(pool))
        candidates = pool.without(once([wanted, found.ids]))[:room]
        if not len(candidates):
            break
        yield from pool.add(candidates)
        if pool.late:
            break
    stop = StopReason.DEADLINE if pool.late else StopReason.BUDGET
    ranking = rank(query, query.vector, found, pool, settings.reranker_weight) if len(pool) else found
    return Outcome(query.vector, ranking, stop)


def best_labelled(pool: LabelPool) -> Ids:
    """The labelled documents, the best label first; equal labels in the order in which they came."""
    return pool.ids[np.argsort(-pool.labels, kind="stable")]


def once(documents: Iterable[Ids]) -> Ids:
    """The documents of several lists in one list, each where it comes first."""
    joined = [id_ for ids in documents for id_ in ids.tolist()]
    return np.array(list(dict.fromkeys(joined)), dtype=np.int64)
