"""The path of every query as JSON lines."""

import json
from collections.abc import Sequence
from typing import IO

import numpy as np

from tour_pyserini.core.loop import Step


class Trace:
    """Writes one line per query and iteration.

    Each line has: `qid`, `t`, the candidates' `docids`, `similarities` (scaled), re-ranker `scores` and `labels` (the
    target distribution), the `step_size` of the update that follows, `stopped` (`agreement`, `iterations`, or null when
    it goes on), and what shows drift: `cosine` to the first query vector and the `norm`. The vector itself, `query`,
    is there when asked for.
    """

    def __init__(self, file: IO[str], docids: Sequence[str], *, labelled: bool, vectors: bool = False) -> None:
        """Write to an open text file; `labelled` tells whether scores mean anything."""
        self._file, self._docids, self._labelled, self._vectors = file, docids, labelled, vectors
        self._start: dict[str, np.ndarray] = {}

    def __call__(self, step: Step, q_ids: Sequence[str]) -> None:
        """Write what one iteration did to a batch."""
        for place, row in enumerate(step.rows.tolist()):
            q_id, query = str(q_ids[row]), step.queries[place].astype(np.float64)
            if step.t == 0:
                self._start[q_id] = query
            self._file.write(json.dumps(self._record(step, place, q_id, query), ensure_ascii=False) + "\n")
            if step.last or step.stopped[place]:
                del self._start[q_id]

    def _record(self, step: Step, place: int, q_id: str, query: np.ndarray) -> dict[str, object]:
        there = step.candidates.mask[place]
        norm, start = np.linalg.norm(query), self._start[q_id]
        lengths = norm * np.linalg.norm(start)
        return {
            "qid": q_id,
            "t": step.t,
            "docids": [self._docids[id_] for id_ in step.candidates.ids[place][there].tolist()],
            "similarities": _rounded(step.candidates.similarities[place][there]),
            "scores": _rounded(step.candidates.scores[place][there]) if self._labelled else None,
            "labels": _rounded(step.target[place][there]),
            "step_size": None if step.stopped[place] else step.step_size,
            "stopped": "agreement" if step.stopped[place] else "iterations" if step.last else None,
            "cosine": round(float(query @ start / lengths), 6) if lengths else None,
            "norm": round(float(norm), 6),
            **({"query": _rounded(query)} if self._vectors else {}),
        }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(value, 6) for value in values.tolist()]
