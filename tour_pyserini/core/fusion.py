"""Several first-stage signals as one retrieval of one query.

The similarity of a passage to a query becomes q c + e: the inner product, which follows the query's updates, and an
offset, which is what further signals (BM25, a second encoder) say of the passage and stays as it is. An offset is in
the units of similarities:

    e = w sum_j (sd_0 / sd_j) (x_j - mean_j)

where x_j is the signal's own score of the passage, w the weight of each further signal against the index's 1, and mean
and standard deviation (sd_0: of the inner products q_0 c) are those among the first candidates of all signals. So a
signal may have any unit and any zero.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids, Ranking

POOL = 100
"""How many first candidates of each signal are the sample on which scores are standardised."""
_NOTHING: Ids = np.empty(0, dtype=np.int64)


class SignalHits(NamedTuple):
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

    def of_query(self, row: int) -> "SignalScores":
        """What it found for one of the queries."""
        found = self.ids[row] >= 0
        return SignalScores(self.ids[row][found], self.scores[row][found], None if found.all() else self.absent)


class SignalScores:
    """What a further signal says of documents for one query; one that it did not find counts as the last one it found.

    Attributes:
        ids: [m] the documents that it found, best first.
    """

    def __init__(self, ids: Ids, scores: Floats, absent: float | None = None) -> None:
        """Begin with the documents [m] that it found, best first, and their scores [m]; see `SignalHits`."""
        self.ids = ids
        order = np.argsort(ids, kind="stable")
        self._sorted, self._scores = ids[order], scores[order].astype(np.float64)
        last = float(scores.min()) if len(scores) else 0.0
        self._others = last if absent is None else min(absent, last)

    def of(self, ids: Ids) -> Floats:
        """[k] the scores of documents [k], found or not; 0 where the signal found nothing at all."""
        if not len(self._sorted):
            return np.zeros(len(ids))
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        return np.where(self._sorted[at] == ids, self._scores[at], self._others)


class Fusion:
    """Joins what the index finds for a query with what further signals found.

    The first retrieval, of q_0, says how signals are standardised; before it, offsets and spread are not known.

    Attributes:
        signals: what each further signal says.
        proposed: [p] all documents that they found.
    """

    def __init__(self, signals: Sequence[SignalScores] = (), *, weight: float = 0.0) -> None:
        """Begin with what the signals found; `weight` is w."""
        self.signals, self._weight = signals, weight
        self.proposed: Ids = np.unique(np.concatenate([one.ids for one in signals])) if signals else _NOTHING
        self._sample: Floats | None = None
        self._terms: list[tuple[SignalScores, float, float]] | None = None
        self._vectors: Floats | None = None

    def fuse(self, query: Floats, found: Ranking, vectors: Callable[[Ids], Floats], hits: int) -> Ranking:
        """The best of what the index and the signals found.

        Args:
            query: [d] the vector; where d = 0, documents have no vectors, and the signals alone decide.
            found: what the index found for it, at least `POOL` documents where it has as many.
            vectors: the vectors [k, d] of documents [k].
            hits: most documents.
        """
        if not self.signals:
            if self._sample is None:
                self._sample = found.scores[:POOL]
            return found
        if len(self.proposed) and self._vectors is None:
            self._vectors = vectors(self.proposed)
        ids, similarities = found.ids, found.scores
        if self._vectors is not None:
            others = ~np.isin(ids, self.proposed, assume_unique=True)
            products = np.einsum("kd,d->k", self._vectors, query)
            ids = np.concatenate([ids[others], self.proposed])
            similarities = np.concatenate([similarities[others], products]).astype(np.float64)
        if self._terms is None:
            self._standardise(ids, similarities, nearest=POOL if len(query) else 0)
        fused = similarities + self.offsets(ids)
        best = np.argsort(-fused, kind="stable")[:hits]
        return Ranking(ids[best], fused[best])

    def offsets(self, ids: Ids) -> Floats:
        """[k] the offsets e of documents [k]."""
        terms = (factor * (signal.of(ids) - mean) for signal, factor, mean in self._terms or ())
        return sum(terms, start=np.zeros(len(ids)))

    @cached_property
    def spread(self) -> float:
        """sd_0 of the first candidates; known after the first retrieval."""
        # Without any difference in similarity, as of a query vector of zeros, the signals alone decide, in their unit.
        return float(self._sample.std(dtype=np.float64) if self._sample is not None and len(self._sample) else 0) or 1.0

    def _standardise(self, ids: Ids, similarities: Floats, *, nearest: int) -> None:
        """Find the spread sd_0, and each signal's factor w sd_0 / sd_j and mean, among the first candidates."""
        sample = np.argsort(-similarities, kind="stable")[:nearest]
        first = np.concatenate([ids[sample], *(signal.ids[:POOL] for signal in self.signals)])
        sample = np.flatnonzero(np.isin(ids, first))
        self._sample, self._terms = similarities[sample], []
        for signal in self.signals:
            scores = signal.of(ids[sample])
            deviation = scores.std() if len(scores) else 0.0
            # A signal that says the same of all candidates says nothing.
            says = deviation > 1e-9 * np.abs(scores).max(initial=0)
            factor = self._weight * self.spread / deviation if says else 0.0
            self._terms.append((signal, factor, scores.mean() if len(scores) else 0.0))
