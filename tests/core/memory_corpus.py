"""A corpus in memory for tests of the loop."""

import numpy as np

from tour_pyserini.core.candidates import Hits
from tour_pyserini.core.loop import optimise


class MemoryCorpus:
    """Vectors [m, d] and re-ranker scores [n, m] in memory; remembers what is searched, labelled and fetched."""

    def __init__(self, vectors, scores, hits):
        self.matrix, self.scores, self.hits = vectors, scores, hits
        self.searched, self.scored, self.fetched = [], [], []

    def search(self, rows, queries):
        self.searched.append(rows.tolist())
        similarities = queries @ self.matrix.T
        order = np.argsort(-similarities, axis=1, kind="stable")[:, : self.hits]
        return Hits(order, np.take_along_axis(similarities, order, axis=1))

    def vectors(self, ids):
        self.fetched += ids.tolist()
        return self.matrix[ids]

    def score(self, rows, ids):
        self.scored += zip(rows.tolist(), ids.tolist(), strict=True)
        return self.scores[rows, ids]

    def run(self, queries, config, observe=None):
        return optimise(queries, config, search=self.search, vectors=self.vectors, score=self.score, observe=observe)


class MemoryCorpusWithoutHits(MemoryCorpus):
    """The same, but nothing is retrieved for the first query."""

    def search(self, rows, queries):
        hits = super().search(rows, queries)
        hits.ids[rows == 0], hits.similarities[rows == 0] = -1, -np.inf
        return hits
