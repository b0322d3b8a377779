"""LADR: seeds of a lexical search, then the neighbours of the best, again and again."""

from dataclasses import dataclass

import numpy as np

from tour_pyserini.core.candidates import Ids
from tour_pyserini.core.corpus_view import CorpusView
from tour_pyserini.core.methods.exploring import Exploring, NeighbourSettings, once
from tour_pyserini.core.settings import AT_LEAST_1, setting


@dataclass(frozen=True, kw_only=True)
class BestSettings(NeighbourSettings):
    """How many edges a document has, and how many documents are expanded."""

    best: int = setting(5, "how many passages with the highest labels have their neighbours looked up", rule=AT_LEAST_1)


class Ladr(Exploring):
    """Labels the seeds, then the neighbours of the passages with the highest labels until these stay the same.

    After the adaptive variant of "Lexically-Accelerated Dense Retrieval" (Kulkarni et al., 2023). The paper's: seeds
    come from a lexical search (with `--sparse`, the signal's own list; without one, or where it finds nothing, the
    retrieval's); in each round the neighbours of the best so far join; it ends when the best have no new neighbours.
    Different here: the paper scores with a dense model, to find what an exhaustive search would, and no re-ranker is
    asked; here labels say which passages are the best, the dense model (with the signals) only in which order
    neighbours are labelled, and once the best have no new neighbours, the rest of the budget goes to further seeds.
    """

    Settings = BestSettings

    def _order(self, row: int, hits: Ids, view: CorpusView) -> Ids:
        known = view.labelled(row).ids
        found = view.found_by_signals(row)
        seeds = _by_rank(found) if any(map(len, found)) else hits
        if not len(known):
            return seeds[: view.wanted]
        near = once(view.neighbours(row, known[: self.settings.best], self.settings.neighbours))
        near = near[~np.isin(near, known)]
        near = near[np.argsort(-view.similarities(row, near), kind="stable")]
        return once([near, seeds[~np.isin(seeds, known)][: view.wanted]])


def _by_rank(lists: list[Ids]) -> Ids:
    """The documents of several lists: all that are first, then all that are second, ..."""
    ranks = np.concatenate([np.arange(len(ids)) for ids in lists])
    return once([np.concatenate(lists)[np.argsort(ranks, kind="stable")]])
