"""LADR: seeds of a lexical search, then the neighbours of the best, again and again.

After the adaptive variant of "Lexically-Accelerated Dense Retrieval" (Kulkarni et al., 2023). The paper's: seeds come
from a lexical search (with `--sparse`, the signal's own list; without one, or where it finds nothing, the retrieval's);
in each round the neighbours of the best so far join. Different here: the paper scores with a dense model, and no
re-ranker is asked; here labels say which passages are the best, the dense model (with the signals) only in which order
neighbours are labelled, and once the best have no new neighbours, the rest of the budget goes to further seeds.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from exploring import NeighbourSettings, best_labelled, explore, once

from tour_pyserini.core.arrays import Ids, Ranking
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Neighbours, Query, Request, Run, Vectors, method, register_method
from tour_pyserini.core.settings import AT_LEAST_1, setting


@dataclass(frozen=True, kw_only=True)
class LadrSettings(NeighbourSettings):
    """How many edges a document has, and how many documents are expanded."""

    best: int = setting(5, "how many passages with the highest labels have their neighbours looked up", rule=AT_LEAST_1)


@method(LadrSettings)
def ladr(query: Query, settings: LadrSettings) -> Run:
    """Label the seeds, then the neighbours of the passages with the highest labels until these stay the same."""

    def choose(t: int, found: Ranking, pool: LabelPool) -> Generator[Request, Any, Ids]:
        lists = [signal.ids for signal in query.fusion.signals]
        seeds = _by_rank(lists) if any(map(len, lists)) else found.ids
        if not len(pool):
            return seeds
        near = pool.without(once((yield Neighbours(best_labelled(pool)[: settings.best], settings.neighbours))))
        if not len(near):
            return seeds
        vectors = yield Vectors(near)
        similarities = np.einsum("kd,d->k", vectors, query.vector) + query.offsets(near)
        return once([near[np.argsort(-similarities, kind="stable")], seeds])

    return (yield from explore(query, settings, choose))


def _by_rank(lists: list[Ids]) -> Ids:
    """The documents of several lists: all that are first, then all that are second, ..."""
    ranks = np.concatenate([np.arange(len(ids)) for ids in lists])
    return once([np.concatenate(lists)[np.argsort(ranks, kind="stable")]])


register_method(ladr)
