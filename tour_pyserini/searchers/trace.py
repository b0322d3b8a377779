"""The query path as JSON lines: what each round did to each query."""

import json
import math
from collections.abc import Sequence
from typing import IO, Protocol

import numpy as np

from tour_pyserini.core.loop import Round

TOP = 10
"""Hits whose overlap from one retrieval to the next is reported."""


class Names(Protocol):
    """The docid of each position of an index."""

    def __getitem__(self, position: int, /) -> str: ...


class Trace:
    """Writes one line per query and round.

    Each line has `qid` and `t` (updates so far); of each candidate, in order of similarity: `docids`, `similarities`
    (scaled), `labels` (the re-ranker's scores; null where there is none) and `target` (the distribution T); the
    `step_size` of the update that follows; and `stop`, why the query stops (see `StopReason`), or null when it goes on.
    What shows drift: `cosine` to the first query vector, `norm`, `overlap` of the first ten hits with those of the
    round before, and `label_mean`. The vector itself, `query`, is written on request.
    """

    def __init__(self, file: IO[str], docids: Names, *, labelled: bool, vectors: bool = False) -> None:
        """Write to an open text file.

        Args:
            file: where lines go.
            docids: the docid of each position of the index.
            labelled: whether the method has labels.
            vectors: whether query vectors are written too.
        """
        self._file, self._docids, self._labelled, self._vectors = file, docids, labelled, vectors
        self._start: dict[str, np.ndarray] = {}
        self._first_hits: dict[str, set[int]] = {}

    def __call__(self, round_: Round, q_ids: Sequence[str]) -> None:
        """Write what one round did to a batch."""
        for i, row in enumerate(round_.rows.tolist()):
            q_id, query = str(q_ids[row]), round_.queries[i].astype(np.float64)
            if round_.t == 0:
                self._start[q_id] = query
            self._file.write(json.dumps(self._line(round_, i, q_id, query), ensure_ascii=False) + "\n")
            if round_.stops[i]:
                del self._start[q_id], self._first_hits[q_id]

    def _line(self, round_: Round, i: int, q_id: str, query: np.ndarray) -> dict[str, object]:
        candidates = round_.candidates
        # In order of similarity to the present query; absent candidates come last and are cut off.
        order = np.argsort(-candidates.similarities[i], kind="stable")[: candidates.mask[i].sum()]
        labels = candidates.labels[i][order]
        bought = labels[~np.isnan(labels)]
        hits, before = {id_ for id_ in round_.hits.ids[i][:TOP].tolist() if id_ >= 0}, self._first_hits.get(q_id)
        self._first_hits[q_id] = hits
        norm, start = np.linalg.norm(query), self._start[q_id]
        norms = norm * np.linalg.norm(start)
        return {
            "qid": q_id,
            "t": round_.t,
            "docids": [self._docids[id_] for id_ in candidates.ids[i][order].tolist()],
            "similarities": _rounded(candidates.similarities[i][order]),
            "labels": [None if math.isnan(label) else round(label, 6) for label in labels.tolist()]
            if self._labelled
            else None,
            "target": _rounded(round_.target[i][order]),
            "step_size": None if round_.stops[i] else round_.step_size,
            "stop": round_.stops[i],
            "cosine": round(float(query @ start / norms), 6) if norms else None,
            "norm": round(float(norm), 6),
            "overlap": len(hits & before) / len(hits) if hits and before is not None else None,
            "label_mean": round(float(bought.mean()), 6) if self._labelled and len(bought) else None,
            **({"query": _rounded(query)} if self._vectors else {}),
        }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(value, 6) for value in values.tolist()]
