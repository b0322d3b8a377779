"""RGS: greedy search on the corpus graph, guided by the re-ranker.

After "Beyond Sequential Reranking: Reranker-Guided Search Improves Reasoning Intensive Retrieval" (Xu et al., 2025).
The paper's: the search begins at the document nearest to the query; it always expands the best passage that has
neighbours without a label; the budget is in passages that the re-ranker reads. Different here: scores are pointwise,
where the paper's re-ranker sorts a window of passages; edges are exact nearest neighbours, where the paper prunes those
of DiskANN; `depth` passages are labelled at a time, and where the best passage has fewer new neighbours, those of the
next best fill the round.
"""

from collections.abc import Generator
from typing import Any

from exploring import NeighbourSettings, best_labelled, explore, once

from tour_pyserini.core.arrays import Ids, Ranking
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Neighbours, Query, Request, Run, method, register_method


@method(NeighbourSettings)
def rgs(query: Query, settings: NeighbourSettings) -> Run:
    """Label the neighbours of the passage with the highest label, then those of the next best."""

    def choose(t: int, found: Ranking, pool: LabelPool) -> Generator[Request, Any, Ids]:
        starts = best_labelled(pool) if len(pool) else found.ids[:1]
        chosen = found.ids[:0]
        for position in range(len(starts)):
            (near,) = yield Neighbours(starts[position : position + 1], settings.neighbours)
            chosen = once([chosen, pool.without(once([starts[position : position + 1], near]))])
            if len(chosen) >= settings.depth:
                break
        return chosen

    return (yield from explore(query, settings, choose))


register_method(rgs)
