"""The path of every query as JSON lines."""

import json
import math
from collections.abc import Sequence
from typing import IO

import numpy as np

from tour_pyserini.core.loop import Step

TOP = 10
"""Hits whose overlap from one retrieval to the next is told."""


class Trace:
    """Writes one line per query and iteration.

    Each line has: `qid`, `t`, the candidates' `docids`, `similarities` (scaled), re-ranker `scores` and `labels` (the
    target distribution), the `step_size` of the update that follows, `stopped` (`agreement`, `iterations`, or null when
    it goes on), and what shows drift: `cosine` to the first query vector and the `norm`, the `overlap` of the first
    ten hits with those before the update, and the `label_mean` of the candidates. The vector itself, `query`, is there
    when asked for.
    """

    def __init__(self, file: IO[str], docids: Sequence[str], *, labelled: bool, vectors: bool = False) -> None:
        """Write to an open text file; `labelled` tells whether scores mean anything."""
        self._file, self._docids, self._labelled, self._vectors = file, docids, labelled, vectors
        self._start: dict[str, np.ndarray] = {}
        self._found: dict[str, set[int]] = {}

    def __call__(self, step: Step, q_ids: Sequence[str]) -> None:
        """Write what one iteration did to a batch."""
        for place, row in enumerate(step.rows.tolist()):
            q_id, query = str(q_ids[row]), step.queries[place].astype(np.float64)
            if step.t == 0:
                self._start[q_id] = query
            self._file.write(json.dumps(self._record(step, place, q_id, query), ensure_ascii=False) + "\n")
            if step.last or step.stopped[place]:
                del self._start[q_id], self._found[q_id]

    def _record(self, step: Step, place: int, q_id: str, query: np.ndarray) -> dict[str, object]:
        # In the query's own order, whatever order they were met in; absent ones come last.
        there = np.argsort(-step.candidates.similarities[place], kind="stable")[: step.candidates.mask[place].sum()]
        scores = step.candidates.scores[place][there]
        known = scores[~np.isnan(scores)]
        found, before = {id_ for id_ in step.hits.ids[place][:TOP].tolist() if id_ >= 0}, self._found.get(q_id)
        self._found[q_id] = found
        norm, start = np.linalg.norm(query), self._start[q_id]
        lengths = norm * np.linalg.norm(start)
        return {
            "qid": q_id,
            "t": step.t,
            "docids": [self._docids[id_] for id_ in step.candidates.ids[place][there].tolist()],
            "similarities": _rounded(step.candidates.similarities[place][there]),
            "scores": [None if math.isnan(score) else round(score, 6) for score in scores.tolist()]
            if self._labelled
            else None,
            "labels": _rounded(step.target[place][there]),
            "step_size": None if step.stopped[place] else step.step_size,
            "stopped": "agreement" if step.stopped[place] else "iterations" if step.last else None,
            "cosine": round(float(query @ start / lengths), 6) if lengths else None,
            "norm": round(float(norm), 6),
            "overlap": len(found & before) / len(found) if found and before is not None else None,
            "label_mean": round(float(known.mean()), 6) if self._labelled and len(known) else None,
            **({"query": _rounded(query)} if self._vectors else {}),
        }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(value, 6) for value in values.tolist()]
