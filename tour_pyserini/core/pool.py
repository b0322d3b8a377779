"""What has been paid for: the label and the vector of every (query, candidate) pair met so far."""

from collections.abc import Callable

import numpy as np

from tour_pyserini.core.calibration import Calibration
from tour_pyserini.core.candidates import Candidates, Floats, Hits, Ids

Score = Callable[[Ids, Ids], Floats]
Vectors = Callable[[Ids], Floats]


class Pool:
    """Labels each pair once and fetches its vector once, however often the loop meets it.

    Attributes:
        pairs: pairs labelled so far.
        requests: labels asked for so far; `requests - pairs` were already there.
        scale: factor of every similarity: a number, or what a calibration finds on the first candidates.
    """

    def __init__(self, *, score: Score, vectors: Vectors | None, scale: float | Calibration) -> None:
        """Set up an empty pool.

        Args:
            score: re-ranker logits [m] of m pairs, given as query rows [m] and candidate ids [m].
            vectors: candidate vectors [m, d] for ids [m]; None when no query is ever updated.
            scale: factor of every similarity, or the calibration that has it after the first labels.
        """
        self.pairs = self.requests = 0
        self._calibration = scale if isinstance(scale, Calibration) else None
        self.scale = scale.scale if isinstance(scale, Calibration) else scale
        self._score, self._vectors = score, vectors
        self._slots: dict[tuple[int, int], int] = {}
        self._by_row: dict[int, list[int]] = {}
        self._bought: dict[int, int] = {}
        self._scores: Floats = np.empty(0)
        self._stack: Floats | None = None

    def offer(self, rows: Ids, hits: Hits, depth: int, *, new: bool, budget: int | None) -> Hits:
        """What there is to look at among the hits [n, m] of the queries in `rows` [n]: at most `depth` each.

        Args:
            rows: where the queries stand in the batch.
            hits: their retrieval.
            depth: candidates of a query.
            new: the first `depth` that were not met before; if not, the first `depth`.
            budget: labels that a query may have in all; candidates beyond it are left out. None: nothing is labelled.
        """
        ids = np.full((len(rows), depth), -1, dtype=np.int64)
        similarities = np.full(ids.shape, -np.inf, dtype=hits.similarities.dtype)
        for place, row in enumerate(rows.tolist()):
            left, slot = None if budget is None else budget - self._bought.get(row, 0), 0
            for id_, similarity in zip(hits.ids[place].tolist(), hits.similarities[place].tolist(), strict=True):
                if slot == depth or id_ < 0:
                    break
                place_of = self._slots.get((row, id_))
                if place_of is not None and new:
                    continue
                if left is not None and (place_of is None or np.isnan(self._scores[place_of])):
                    if not left:
                        continue
                    left -= 1
                ids[place, slot], similarities[place, slot] = id_, similarity
                slot += 1
        return Hits(ids, similarities)

    def meet(self, rows: Ids, hits: Hits, *, label: bool) -> None:
        """Fetch the vectors of the hits [n, k] of the queries in `rows` [n] and label them, unless that was done."""
        mask = hits.ids >= 0
        places, ids = np.repeat(rows, mask.sum(axis=1)), hits.ids[mask]
        fresh = [
            pair for pair in dict.fromkeys(zip(places.tolist(), ids.tolist(), strict=True)) if pair not in self._slots
        ]
        if fresh:
            self._admit(*(np.array(column, dtype=np.int64) for column in zip(*fresh, strict=True)))
        if label:
            self._label(rows, hits)

    def candidates(self, rows: Ids, queries: Floats, hits: Hits | None) -> Candidates:
        """The hits [n, k] of the queries [n, d] in `rows` [n] with what is known of them; None: all that was met."""
        known = [self._by_row.get(row, []) for row in rows.tolist()] if hits is None else hits.ids.tolist()
        ids = np.full((len(rows), max(1, *map(len, known))), -1, dtype=np.int64)
        slots = ids.copy()
        for place, (row, met) in enumerate(zip(rows.tolist(), known, strict=True)):
            ids[place, : len(met)] = met
            slots[place, : len(met)] = [self._slots.get((row, id_), -1) for id_ in met]
        mask = ids >= 0
        scores = np.where(mask, self._scores[slots] if len(self._scores) else -np.inf, -np.inf)
        if self._stack is not None:
            vectors = np.where(mask[..., None], self._stack[slots], 0)
            similarities = np.einsum("nkd,nd->nk", vectors, queries)
        else:
            vectors = np.zeros((*ids.shape, queries.shape[1] if self._vectors else 0), dtype=queries.dtype)
            similarities = np.zeros(ids.shape) if hits is None else hits.similarities
        return Candidates(ids, vectors, np.where(mask, self.scale * similarities, -np.inf), scores, self.scale)

    def labelled(self, row: int) -> tuple[list[int], Floats, Floats | None]:
        """Everything labelled for one query: ids, scores [m] and vectors [m, d], in the order they were first met."""
        met = [(id_, self._slots[row, id_]) for id_ in self._by_row.get(row, [])]
        met = [(id_, slot) for id_, slot in met if not np.isnan(self._scores[slot])]
        slots = [slot for _, slot in met]
        return [id_ for id_, _ in met], self._scores[slots], None if self._stack is None else self._stack[slots]

    def _admit(self, rows: Ids, ids: Ids) -> None:
        if self._vectors is not None:
            vectors = self._vectors(ids)
            self._stack = vectors if self._stack is None else np.concatenate([self._stack, vectors])
        self._scores = np.concatenate([self._scores, np.full(len(ids), np.nan)])
        for row, id_ in zip(rows.tolist(), ids.tolist(), strict=True):
            self._slots[row, id_] = len(self._slots)
            self._by_row.setdefault(row, []).append(id_)

    def _label(self, rows: Ids, hits: Hits) -> None:
        mask = hits.ids >= 0
        places, ids = np.repeat(rows, mask.sum(axis=1)), hits.ids[mask]
        slots = np.array(
            [self._slots[pair] for pair in zip(places.tolist(), ids.tolist(), strict=True)], dtype=np.int64
        )
        _, first = np.unique(slots, return_index=True)
        fresh = np.sort(first[np.isnan(self._scores[slots[first]])])
        self.requests += len(slots)
        self.pairs += len(fresh)
        if len(fresh):
            self._scores[slots[fresh]] = self._score(places[fresh], ids[fresh])
            for row in places[fresh].tolist():
                self._bought[row] = self._bought.get(row, 0) + 1
        if self._calibration is not None:
            scores = np.zeros(mask.shape)
            scores[mask] = self._scores[slots]
            self._calibration.add(hits.similarities, scores, mask)
            self.scale, self._calibration = self._calibration.scale, None
