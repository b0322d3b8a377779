"""GAR: alternates between the query's own candidates and the neighbours of the passage with the highest label.

After "Adaptive Re-Ranking with a Corpus Graph" (MacAvaney et al., 2022). A search with a passage's vector stands for
the graph's edges, and a round labels the neighbours of the best passage so far.
"""

from collections.abc import Generator
from typing import Any

from exploring import NeighbourSettings, best_labelled, explore

from tour_pyserini.core.arrays import Ids, Ranking
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Neighbours, Query, Request, Run, method, register_method


@method(NeighbourSettings)
def gar(query: Query, settings: NeighbourSettings) -> Run:
    """The retrieval in even rounds, neighbours of the best passage in odd ones."""

    def choose(t: int, found: Ranking, pool: LabelPool) -> Generator[Request, Any, Ids]:
        if t % 2 == 0:
            return found.ids
        (near,) = yield Neighbours(best_labelled(pool)[:1], settings.neighbours)
        return near

    return (yield from explore(query, settings, choose))


register_method(gar)
