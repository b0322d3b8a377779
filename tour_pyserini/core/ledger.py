"""The ledger: the candidates that each query has met, with their vectors and the labels bought for them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids

Score = Callable[[Ids, Ids], Floats]
"""Re-ranker scores [m] of m pairs, given as query rows [m] and candidate ids [m]; NaN: there was no time for it."""
Vectors = Callable[[Ids], Floats]
"""Candidate vectors [m, d] for ids [m]."""
Offsets = Callable[[Ids, Ids], Floats]
"""What further signals add to the similarities of m pairs, [m], given as query rows [m] and candidate ids [m]."""


class Labelled(NamedTuple):
    """Everything labelled for one query, in the order in which it was met.

    Attributes:
        ids: [m] the candidates.
        labels: [m] their labels.
        vectors: [m, d] their vectors; None where no query is ever updated.
        offsets: [m] what further signals add to their similarities.
    """

    ids: Ids
    labels: Floats
    vectors: Floats | None
    offsets: Floats


class Ledger:
    """Labels each (query, candidate) pair once and fetches its vector once, however often the loop meets it.

    Attributes:
        bought: labels bought so far.
        requested: labels asked for so far; `requested - bought` were in the ledger already.
    """

    def __init__(self, *, score: Score, vectors: Vectors | None, offsets: Offsets | None = None) -> None:
        """Start an empty ledger; `vectors` is None when no query is ever updated, `offsets` with one signal."""
        self.bought = self.requested = 0
        self._score, self._vectors, self._offsets_of = score, vectors, offsets
        self._entries: dict[tuple[int, int], int] = {}  # (row, id) to its position in the arrays below
        self._labels: Floats = np.empty(0)  # NaN: met, but not labelled
        self._offsets: Floats = np.empty(0)
        self._stack: Floats | None = None
        self._met: dict[int, list[int]] = {}
        self._spent: dict[int, int] = {}
        self._late: set[int] = set()

    def spent(self, rows: Ids) -> Ids:
        """[n] labels bought for the queries in `rows` [n]."""
        return np.array([self._spent.get(row, 0) for row in rows.tolist()], dtype=np.int64)

    def late(self, rows: Ids) -> Flags:
        """[n] true where a label of the query could not be bought in time: it gets no more."""
        return np.array([row in self._late for row in rows.tolist()], dtype=bool)

    def choose(self, rows: Ids, hits: Hits, depth: int, *, new_only: bool, budget: int | None) -> Hits:
        """The candidates of a round: at most `depth` of each query's hits [n, m], best first.

        Args:
            rows: [n] which queries of the batch these are.
            hits: their retrieval.
            depth: most candidates of a query.
            new_only: leave out what the query has met before.
            budget: most labels that a query may have; unlabelled candidates beyond it are left out. None: no limit,
                because nothing is labelled.
        """
        ids = np.full((len(rows), depth), -1, dtype=np.int64)
        similarities = np.full(ids.shape, -np.inf, dtype=hits.similarities.dtype)
        for i, row in enumerate(rows.tolist()):
            left, count = None if budget is None else budget - self._spent.get(row, 0), 0
            for id_, similarity in zip(hits.ids[i].tolist(), hits.similarities[i].tolist(), strict=True):
                if count == depth or id_ < 0:
                    break
                entry = self._entries.get((row, id_))
                if entry is not None and new_only:
                    continue
                if left is not None and (entry is None or np.isnan(self._labels[entry])):
                    if not left:
                        continue
                    left -= 1
                ids[i, count], similarities[i, count] = id_, similarity
                count += 1
        return Hits(ids, similarities)

    def enter(self, rows: Ids, hits: Hits) -> None:
        """Fetch the vectors of the hits [n, k] of the queries in `rows` [n], unless they are in the ledger."""
        pairs = dict.fromkeys(_pairs(rows, hits))
        fresh = [pair for pair in pairs if pair not in self._entries]
        if not fresh:
            return
        if self._vectors is not None:
            vectors = self._vectors(np.array([id_ for _, id_ in fresh], dtype=np.int64))
            self._stack = vectors if self._stack is None else np.concatenate([self._stack, vectors])
        first = len(self._labels)
        self._labels = np.concatenate([self._labels, np.full(len(fresh), np.nan)])
        offsets = self._offsets_of(*np.array(fresh, dtype=np.int64).T) if self._offsets_of else np.zeros(len(fresh))
        self._offsets = np.concatenate([self._offsets, offsets])
        for position, (row, id_) in enumerate(fresh, start=first):
            self._entries[row, id_] = position
            self._met.setdefault(row, []).append(id_)

    def buy(self, rows: Ids, hits: Hits) -> Floats:
        """Label the entered hits [n, k] of the queries in `rows` [n], unless they are labelled.

        What there was no time for leaves the ledger again.

        Returns:
            [n, k] their labels, 0 where there is no hit, NaN where there was no time.
        """
        mask = hits.ids >= 0
        pairs = _pairs(rows, hits)
        entries = np.array([self._entries[pair] for pair in pairs], dtype=np.int64)
        _, first = np.unique(entries, return_index=True)
        fresh = np.sort(first[np.isnan(self._labels[entries[first]])])
        if len(fresh):
            asked = np.array(pairs, dtype=np.int64)[fresh]
            scores = self._labels[entries[fresh]] = self._score(asked[:, 0], asked[:, 1])
            for (row, id_), missed in zip(asked.tolist(), np.isnan(scores).tolist(), strict=True):
                if missed:
                    self._forget(row, id_)
                else:
                    self._spent[row] = self._spent.get(row, 0) + 1
                    self.bought += 1
        labels = np.zeros(mask.shape)
        labels[mask] = self._labels[entries]
        self.requested += int((~np.isnan(labels[mask])).sum())
        return labels

    def _forget(self, row: int, id_: int) -> None:
        """Take out a candidate that there was no time to label."""
        self._late.add(row)
        self._met[row].remove(id_)
        del self._entries[row, id_]

    def candidates(
        self, rows: Ids, queries: Floats, hits: Hits | None, *, scale: Floats | float, width: int = 1
    ) -> Candidates:
        """What is known of the candidates of some queries.

        Args:
            rows: [n] which queries of the batch these are.
            queries: [n, d] their vectors.
            hits: [n, k] the candidates; None: all that the queries have met, in `width` columns.
            scale: [n], or one number for all, the factor of similarities.
            width: at least as many as any query has met. It must not depend on the other queries of the batch: sums
                over rows of another length may round differently.
        """
        known = [self._met.get(row, []) for row in rows.tolist()] if hits is None else hits.ids.tolist()
        ids = np.full((len(rows), width if hits is None else hits.ids.shape[1]), -1, dtype=np.int64)
        entries = ids.copy()
        for i, (row, met) in enumerate(zip(rows.tolist(), known, strict=True)):
            ids[i, : len(met)] = met
            entries[i, : len(met)] = [self._entries.get((row, id_), -1) for id_ in met]
        mask = entries >= 0  # hits that were not entered are left out
        ids[~mask] = -1
        labels = np.where(mask, self._labels[entries] if len(self._labels) else -np.inf, -np.inf)
        offsets = np.where(mask, self._offsets[entries] if len(self._offsets) else 0, 0)
        if self._stack is not None:
            vectors = np.where(mask[..., None], self._stack[entries], 0)
            similarities = np.einsum("nkd,nd->nk", vectors, queries) + offsets
        else:
            vectors = np.zeros((*ids.shape, queries.shape[1] if self._vectors else 0), dtype=queries.dtype)
            similarities = np.zeros(ids.shape) if hits is None else hits.similarities
        scaled = np.broadcast_to(np.asarray(scale), len(rows))[:, None] * similarities
        return Candidates(ids, vectors, np.where(mask, scaled, -np.inf), labels, scale, offsets)

    def labelled(self, row: int) -> Labelled:
        """Everything labelled for the query in `row`."""
        met = [(id_, self._entries[row, id_]) for id_ in self._met.get(row, [])]
        met = [(id_, entry) for id_, entry in met if not np.isnan(self._labels[entry])]
        entries = [entry for _, entry in met]
        return Labelled(
            np.array([id_ for id_, _ in met], dtype=np.int64),
            self._labels[entries],
            None if self._stack is None else self._stack[entries],
            self._offsets[entries],
        )


def _pairs(rows: Ids, hits: Hits) -> list[tuple[int, int]]:
    """(row, id) of every hit."""
    mask = hits.ids >= 0
    return list(zip(np.repeat(rows, mask.sum(axis=1)).tolist(), hits.ids[mask].tolist(), strict=True))
