"""RGS: greedy search on the corpus graph, guided by the re-ranker."""

import numpy as np

from tour_pyserini.core.candidates import Ids
from tour_pyserini.core.corpus_view import CorpusView
from tour_pyserini.core.methods.exploring import Exploring, once


class Rgs(Exploring):
    """Labels the neighbours of the passage with the highest label, then those of the next best.

    After "Beyond Sequential Reranking: Reranker-Guided Search Improves Reasoning Intensive Retrieval" (Xu et al.,
    2025). The paper's: the search begins at the document nearest to the query; it always expands the best passage
    that has neighbours without a label; the budget is in passages that the re-ranker reads. Different here: scores
    are pointwise, where the paper's re-ranker sorts a window of passages; edges are exact nearest neighbours, where
    the paper prunes those of DiskANN; labels are bought `depth` at a time, and where the best passage has fewer new
    neighbours, those of the next best fill the round.
    """

    def _order(self, row: int, hits: Ids, view: CorpusView) -> Ids:
        known = view.labelled(row).ids
        if not len(known):
            return once([hits[:1], *view.neighbours(row, hits[:1], self.settings.neighbours)])
        chosen = hits[:0]
        for position in range(len(known)):
            (nearest,) = view.neighbours(row, known[position : position + 1], self.settings.neighbours)
            chosen = once([chosen, nearest[~np.isin(nearest, known)]])
            if len(chosen) >= view.wanted:
                break
        return chosen
