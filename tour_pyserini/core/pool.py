"""What has been paid for: the label and the vector of every (query, candidate) pair met so far."""

from collections.abc import Callable

import numpy as np

from tour_pyserini.core.candidates import Candidates, Floats, Hits, Ids

Score = Callable[[Ids, Ids], Floats]
Vectors = Callable[[Ids], Floats]


class Pool:
    """Labels each pair once and fetches its vector once, however often the loop meets it.

    Attributes:
        pairs: pairs labelled so far.
        requests: labels asked for so far; `requests - pairs` were already there.
    """

    def __init__(self, *, score: Score | None, vectors: Vectors | None, similarity_scale: float) -> None:
        """Set up an empty pool.

        Args:
            score: re-ranker logits [m] of m pairs, given as query rows [m] and candidate ids [m]; None: no labels.
            vectors: candidate vectors [m, d] for ids [m]; None when no query is ever updated.
            similarity_scale: factor of every similarity.
        """
        self.pairs = self.requests = 0
        self._score, self._vectors, self._scale = score, vectors, similarity_scale
        self._slots: dict[tuple[int, int], int] = {}
        self._by_row: dict[int, list[int]] = {}
        self._scores: Floats = np.empty(0)
        self._stack: Floats | None = None

    def candidates(self, rows: Ids, queries: Floats, hits: Hits) -> Candidates:
        """Label the hits [n, k] of the queries [n, d] that stand in `rows` [n] of the batch."""
        mask = hits.ids >= 0
        self._admit(np.repeat(rows, mask.sum(axis=1)), hits.ids[mask])
        slots = np.array(
            [
                [self._slots.get((row, id_), -1) for id_ in ids]
                for row, ids in zip(rows.tolist(), hits.ids.tolist(), strict=True)
            ]
        )
        slots = slots.reshape(hits.ids.shape)
        scores = np.where(mask, self._scores[slots] if len(self._scores) else -np.inf, -np.inf)
        if self._stack is None:
            vectors = np.zeros((*hits.ids.shape, 0), dtype=queries.dtype)
            similarities = hits.similarities
        else:
            vectors = np.where(mask[..., None], self._stack[slots], 0)
            similarities = np.einsum("nkd,nd->nk", vectors, queries)
        return Candidates(hits.ids, vectors, np.where(mask, self._scale * similarities, -np.inf), scores)

    def labelled(self, row: int) -> tuple[list[int], Floats, Floats | None]:
        """Everything labelled for one query: ids, scores [m] and vectors [m, d], in the order they were first met."""
        ids = self._by_row.get(row, [])
        slots = [self._slots[row, id_] for id_ in ids]
        return ids, self._scores[slots], None if self._stack is None else self._stack[slots]

    def _admit(self, rows: Ids, ids: Ids) -> None:
        fresh = [
            pair for pair in dict.fromkeys(zip(rows.tolist(), ids.tolist(), strict=True)) if pair not in self._slots
        ]
        if self._score is not None:
            self.requests += len(ids)
            self.pairs += len(fresh)
        if not fresh:
            return
        fresh_rows, fresh_ids = (np.array(column, dtype=np.int64) for column in zip(*fresh, strict=True))
        # Both calls may fail on bad data: nothing is remembered before both have answered.
        scores = self._score(fresh_rows, fresh_ids) if self._score else np.zeros(len(fresh))
        if self._vectors is not None:
            vectors = self._vectors(fresh_ids)
            self._stack = vectors if self._stack is None else np.concatenate([self._stack, vectors])
        self._scores = np.concatenate([self._scores, scores])
        for row, id_ in fresh:
            self._slots[row, id_] = len(self._slots)
            self._by_row.setdefault(row, []).append(id_)
