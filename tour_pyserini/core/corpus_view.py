"""What a method may look up to choose candidates itself: labels bought so far, signals, neighbours of documents."""

from collections.abc import Sequence

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.core.fusion import Found, Fusion, Search
from tour_pyserini.core.ledger import Labelled, Ledger, Vectors


class CorpusView:
    """The corpus around n queries.

    The corpus graph is not built beforehand: an edge leads from a document to what a search with its vector finds. A
    document's neighbours are looked up once for each query that asks, so that no query depends on another one.

    Attributes:
        wanted: how many candidates a round labels at most.
    """

    def __init__(
        self,
        queries: Floats,
        *,
        wanted: int,
        search: Search,
        vectors: Vectors,
        ledger: Ledger,
        signals: Sequence[Found] = (),
        fusion: Fusion | None = None,
    ) -> None:
        """Look around the queries q_0 [n, d]; `wanted` labels are bought in a round, the others are the loop's own."""
        self.wanted = wanted
        self._queries, self._search, self._vectors, self._ledger = queries, search, vectors, ledger
        self._signals, self._fusion = signals, fusion
        self._neighbours: dict[tuple[int, int, int], Ids] = {}

    def labelled(self, row: int) -> Labelled:
        """Everything labelled for the query in `row`, the best label first; equal labels in the order of purchase."""
        known = self._ledger.labelled(row)
        order = np.argsort(-known.labels, kind="stable")
        vectors = None if known.vectors is None else known.vectors[order]
        return Labelled(known.ids[order], known.labels[order], vectors, known.offsets[order])

    def found_by_signals(self, row: int) -> list[Ids]:
        """The documents that each further signal found for the query in `row`, best first."""
        return [found.ids[row][found.ids[row] >= 0] for found in self._signals]

    def vectors(self, ids: Ids) -> Floats:
        """The vectors [m, d] of the documents [m], float64."""
        return self._vectors(ids).astype(np.float64)

    def similarities(self, row: int, ids: Ids) -> Floats:
        """[m] how similar the documents [m] are to the query q_0 in `row`, with what the signals add."""
        inner = self.inner_products(row, ids)
        return inner if self._fusion is None else inner + self._fusion.offsets(np.full(len(ids), row), ids)

    def inner_products(self, row: int, ids: Ids) -> Floats:
        """[m] the inner products of the documents [m] and the query q_0 in `row`."""
        # Row by row: a sum must not be rounded differently where more documents are asked for.
        return (self.vectors(ids) * self._queries[row].astype(np.float64)).sum(axis=1) if len(ids) else np.empty(0)

    def signal_scores(self, row: int, ids: Ids) -> Floats:
        """[m, s] the scores that each of s further signals gives the documents [m]."""
        return np.zeros((len(ids), 0)) if self._fusion is None else self._fusion.scores(row, ids)

    def neighbours(self, row: int, ids: Ids, count: int) -> list[Ids]:
        """The `count` documents nearest to each of the documents [m], nearest first and without itself."""
        fresh = np.array([id_ for id_ in ids.tolist() if (row, id_, count) not in self._neighbours], dtype=np.int64)
        if len(fresh):
            vectors = self._vectors(fresh).astype(self._queries.dtype)
            hits = self._search(np.full(len(fresh), row), vectors)
            for id_, found in zip(fresh.tolist(), hits.ids, strict=True):
                self._neighbours[row, id_, count] = found[(found >= 0) & (found != id_)][:count]
        return [self._neighbours[row, id_, count] for id_ in ids.tolist()]
