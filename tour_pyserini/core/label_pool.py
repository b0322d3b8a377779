"""The label pool of a query: all its labelled candidates, each labelled once and its vector fetched once."""

from collections.abc import Generator
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Flags, Floats, Ids
from tour_pyserini.core.method import Label, Query, Request, Vectors


class LabelPool:
    """Labelled candidates in the order in which they were labelled.

    Attributes:
        ids: [m] the candidates.
        labels: [m] their re-ranker scores s.
        vectors: [m, d] their vectors C.
        offsets: [m] what further signals add to their similarities.
        late: whether there was no time for a label: then no more are asked for.
    """

    def __init__(self, query: Query) -> None:
        """Start an empty pool."""
        self.ids: Ids = np.empty(0, dtype=np.int64)
        self.labels: Floats = np.empty(0)
        self.vectors: Floats = np.empty((0, len(query.vector)), dtype=query.vector.dtype)
        self.offsets: Floats = np.empty(0)
        self.late = False
        self._query = query
        self._positions: dict[int, int] = {}  # NumPy's set operations take longer than the rest of a round

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, ids: Ids) -> Generator[Request, Any, None]:
        """Label the candidates [k] that have no label yet, repeated ones once: `yield from pool.add(ids)`."""
        new = np.array([*dict.fromkeys(self.without(ids).tolist())], dtype=np.int64)
        if self.late or not len(new):
            return
        vectors = yield Vectors(new)  # before the labels are paid for: an index may have none
        labels = yield Label(new)
        in_time = ~np.isnan(labels)
        self.late = not in_time.all()
        if self.late:
            new, labels, vectors = new[in_time], labels[in_time], vectors[in_time]
        self._positions |= {id_: position for position, id_ in enumerate(new.tolist(), start=len(self.ids))}
        self.ids = np.concatenate([self.ids, new])
        self.labels = np.concatenate([self.labels, labels])
        self.vectors = np.concatenate([self.vectors, vectors])
        self.offsets = np.concatenate([self.offsets, self._query.offsets(new)])

    def without(self, ids: Ids) -> Ids:
        """Those of the candidates [k] that have no label, in their order."""
        return ids[~self.has(ids)]

    def has(self, ids: Ids) -> Flags:
        """[k] whether each of the candidates [k] has a label."""
        return (ids[:, None] == self.ids).any(axis=1)

    def positions(self, ids: Ids) -> Ids:
        """[k] where each of the candidates [k] is in the pool, in their order; those without a label are left out."""
        known = self._positions
        return np.array([known[id_] for id_ in ids.tolist() if id_ in known], dtype=np.int64)

    def similarities(self, vector: Floats) -> Floats:
        """[m] the similarities q c + e of the candidates to a vector [d]."""
        return np.einsum("kd,d->k", self.vectors, vector) + self.offsets
