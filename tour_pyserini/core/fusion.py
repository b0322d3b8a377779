"""Several first-stage signals as one retrieval.

The similarity of a passage to a query becomes q c + e: the inner product, which follows the query's updates, and an
offset, which is what further signals (BM25, a second encoder) say of the passage and stays as it is. An offset is in
the units of similarities:

    e = w sum_j (sd_0 / sd_j) (x_j - mean_j)

where x_j is the signal's own score of the passage, w the weight of each further signal against the index's 1, and mean
and standard deviation (sd_0: of the inner products q_0 c) are those among the first candidates of all signals. So a
signal may have any unit and any zero.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits, Ids
from tour_pyserini.core.ledger import Vectors

Search = Callable[[Ids, Floats], Hits]
"""Hits [a, m] for the vectors [a, d] of the queries in rows [a]."""

POOL = 100
"""How many first candidates of each signal are the sample on which scores are standardised."""


class Found(NamedTuple):
    """What a further signal found for n queries.

    Attributes:
        ids: [n, m] documents, best first; -1 where there are no more.
        scores: [n, m] what the signal says of them, of any unit and any zero.
        absent: what it says of documents that it does not find, where it finds fewer than m: 0 for BM25, no word in
            common. None: the same as of the last one.
    """

    ids: Ids
    scores: Floats
    absent: float | None = None


class Fusion:
    """Retrieves with the index and further signals together, for the n queries of a batch.

    A query's hits depend on its own vector and its own signals alone.
    """

    def __init__(self, search: Search, vectors: Vectors, found: Sequence[Found], *, weight: float) -> None:
        """Begin with what the further signals found.

        Args:
            search: the retrieval of the index.
            vectors: vectors [p, d] of the documents [p].
            found: what each further signal found. A document that is not among its m documents counts as the last one.
            weight: w, of each further signal.
        """
        self._search, self._vectors = search, vectors
        self._signals = [[_Signal(one, row) for row in range(len(one.ids))] for one in found]
        self._weight = weight
        self._offsets: dict[int, Callable[[Ids], Floats]] = {}
        self._units: dict[int, float] = {}

    def search(self, rows: Ids, queries: Floats) -> Hits:
        """The best of what the index and the signals find, [a, m]: as many hits as the index finds by itself."""
        hits = self._search(rows, queries)
        fused = [self._row(*each) for each in zip(rows.tolist(), queries, *hits, strict=True)]
        return Hits(np.stack([ids for ids, _ in fused]), np.stack([similarities for _, similarities in fused]))

    def offsets(self, rows: Ids, ids: Ids) -> Floats:
        """The offsets e [p] of p pairs: query rows [p], which have been searched, and documents [p]."""
        result = np.empty(len(ids))
        for row in np.unique(rows).tolist():
            of_row = rows == row
            result[of_row] = self._offsets[row](ids[of_row])
        return result

    def scores(self, row: int, ids: Ids) -> Floats:
        """[m, s] what each of the s signals gives the documents [m], in its own unit."""
        return np.stack([signal[row].scores_of(ids) for signal in self._signals], axis=1)

    def unit(self, row: int) -> float:
        """The spread sd_0 of the first similarities of a query that has been searched."""
        return self._units[row]

    def _row(self, row: int, query: Floats, ids: Ids, similarities: Floats) -> tuple[Ids, Floats]:
        width, proposed = len(ids), np.unique(np.concatenate([signal[row].ids for signal in self._signals]))
        others = (ids >= 0) & ~np.isin(ids, proposed)
        ids, similarities = np.concatenate([ids[others], proposed]), similarities[others].astype(np.float64)
        if len(proposed):
            # Row by row: a sum must not be rounded differently where more documents are asked for.
            products = self._vectors(proposed).astype(np.float64) * query.astype(np.float64)
            similarities = np.concatenate([similarities, products.sum(axis=1)])
        if row not in self._offsets:  # the first retrieval: similarities to q_0
            signals = [signal[row] for signal in self._signals]
            self._offsets[row], self._units[row] = _standardised(signals, ids, similarities, self._weight)
        fused = similarities + self._offsets[row](ids)
        best = np.argsort(-fused, kind="stable")[:width]
        left = width - len(best)
        return np.pad(ids[best], (0, left), constant_values=-1), np.pad(fused[best], (0, left), constant_values=-np.inf)


def offsets_among(ids: Ids, similarities: Floats, found: Sequence[Found], *, weight: float) -> Floats:
    """The offsets e [m] of the candidates of one query, where no other document can be looked at.

    Args:
        ids: [m] the candidates.
        similarities: [m] their inner products q c.
        found: what each further signal found, [1, p].
        weight: w, of each further signal.
    """
    signals = [_Signal(one, 0) for one in found]
    offsets, _ = _standardised(signals, ids, similarities, weight)
    return offsets(ids)


def _standardised(
    signals: "Sequence[_Signal]", ids: Ids, similarities: Floats, weight: float
) -> tuple[Callable[[Ids], Floats], float]:
    """The offsets of a query's documents, as a function, and the spread sd_0 of its similarities."""
    first = ids[np.argsort(-similarities, kind="stable")[:POOL]]
    sample = np.isin(ids, np.concatenate([first, *(signal.ids[:POOL] for signal in signals)]))
    # Without any difference in similarity, as of a query vector of zeros, the signals alone decide, in their own unit.
    unit = float(similarities[sample].std() if sample.any() else 0.0) or 1.0
    terms = []
    for signal in signals:
        scores = signal.scores_of(ids[sample])
        spread = scores.std() if len(scores) else 0.0
        # A signal that says the same of all candidates says nothing.
        factor = weight * unit / spread if spread > 1e-9 * np.abs(scores).max(initial=0) else 0.0
        terms.append((signal, factor, scores.mean() if len(scores) else 0.0))

    def offsets(some: Ids) -> Floats:
        each = (factor * (signal.scores_of(some) - mean) for signal, factor, mean in terms)
        return sum(each, start=np.zeros(len(some)))

    return offsets, unit


class _Signal:
    """What one signal found for one query."""

    def __init__(self, of: Found, row: int) -> None:
        found = of.ids[row] >= 0
        self.ids = of.ids[row][found]
        scores = of.scores[row][found].astype(np.float64)
        order = np.argsort(self.ids, kind="stable")
        self._sorted, self._scores = self.ids[order], scores[order]
        last = scores.min() if len(scores) else 0.0
        self._others = last if found.all() or of.absent is None else min(of.absent, last)

    def scores_of(self, ids: Ids) -> Floats:
        """The scores [m] of documents [m], found or not."""
        if not len(self._sorted):
            return np.zeros(len(ids))
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        return np.where(self._sorted[at] == ids, self._scores[at], self._others)
