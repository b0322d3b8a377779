"""The trace of a search as JSON lines: what passed between each query's method and the scheduler."""

import json
from typing import IO, Any

import numpy as np

from tour_pyserini.core.arrays import cosine
from tour_pyserini.core.scheduler import Round, Task

TOP = 10
"""Hits whose overlap from one retrieval to the next is reported."""


class Trace:
    """Writes one line per query and round: a retrieval, and the labels that were asked for after it.

    Each line has `qid` and `t`, the number of the retrieval; `docids` of its first hits and `similarities` to the
    query's vector, best first; `labels` of all passages labelled so far among them (null where there is none), and
    `labelled`, the passages that got their label in this round. What shows drift: `cosine` to the first query vector,
    `norm`, and `overlap` of the first ten hits with those of the retrieval before. `stop` says why the query ended, or
    is null. The vector itself, `query`, is written on request.
    """

    def __init__(self, file: IO[str], docids: Any, *, hits: int = 30, vectors: bool = False) -> None:
        """Write to an open text file.

        Args:
            file: where lines go.
            docids: the docid of each position of the index: `docids[position]`.
            hits: hits of each retrieval that are written; those that got a label follow in any case.
            vectors: whether query vectors are written too.
        """
        self._file, self._docids, self._hits, self._vectors = file, docids, hits, vectors

    def __call__(self, q_id: str, task: Task) -> None:
        """Write what happened to a query."""
        labels: dict[int, float] = {}
        before: Round | None = None
        for t, one in enumerate(task.rounds):
            labels |= dict(zip(one.ids.tolist(), one.labels.tolist(), strict=True))
            stop = task.result.stop if t + 1 == len(task.rounds) else None
            line = {"qid": q_id, "t": t, **self._line(one, labels, task.rounds[0], before), "stop": stop}
            if self._vectors:
                line["query"] = _rounded(one.vector)
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            before = one

    def _line(self, one: Round, labels: dict[int, float], first: Round, before: Round | None) -> dict[str, object]:
        shown = one.hits.first(self._hits)
        further = one.ids[~np.isin(one.ids, shown.ids)]
        similarities = dict(zip(one.hits.ids.tolist(), _rounded(one.hits.scores), strict=True))
        ids = [*shown.ids.tolist(), *further.tolist()]
        drift = cosine(one.vector, first.vector)
        top = set(one.hits.ids[:TOP].tolist())
        return {
            "docids": [self._docids[id_] for id_ in ids],
            "similarities": [similarities.get(id_) for id_ in ids],
            "labels": [round(labels[id_], 6) if id_ in labels else None for id_ in ids],
            "labelled": [self._docids[id_] for id_ in one.ids.tolist()],
            "cosine": None if drift is None else round(drift, 6),
            "norm": round(float(np.linalg.norm(one.vector.astype(np.float64))), 6),
            "overlap": len(top & set(before.hits.ids[:TOP].tolist())) / len(top) if top and before else None,
        }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(value, 6) for value in values.tolist()]
