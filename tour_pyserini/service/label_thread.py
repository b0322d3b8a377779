"""Labels of all searches in one thread: what is asked for at the same time goes to the re-ranker in one call."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.rerankers.reranker import Pair, score_pairs_counted
from tour_pyserini.searchers.label_time import Chosen, LabelCost, LabelRequest, next_call

DOWN_SECONDS = 1.0
"""A call that fails sooner is made again for each search alone; what takes longer is a service that is down."""


@dataclass
class PendingLabels:
    """Labels that a search waits for.

    Attributes:
        request: asks for those that the score cache does not have.
        known: [n] those that it has, NaN for the others.
        missing: [m] where the others are.
        asked: when, by the clock `time.monotonic`.
    """

    request: LabelRequest
    known: Floats
    missing: Ids
    asked: float

    def take(self) -> Floats:
        """All labels [n]; NaN where there was no time.

        Raises:
            Exception: what the re-ranker raised.
        """
        if self.request.error is not None:
            raise self.request.error
        labels = self.known.copy()
        labels[self.missing] = self.request.scores
        return labels


class LabelThread:
    """Calls the re-ranker for all searches; a search that asks joins the next call.

    Args:
        reranker: where labels come from, with its score cache.
        cost: the forecast, which learns from each call.
        least: pairs that a call may always have if they are in time: as many as are scored in parallel.

    Attributes:
        calls: calls of the re-ranker so far.
        labels: pairs in these calls.
    """

    def __init__(self, reranker: Any, cost: LabelCost, *, least: int = 1) -> None:
        self.cost, self._least = cost, least
        self.calls = self.labels = 0
        self._reranker = reranker
        self._waiting: list[LabelRequest] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="labels", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Pairs that wait for a call."""
        with self._changed:
            return sum(request.left for request in self._waiting if not request.ended)

    def ask(self, pairs: Sequence[Pair], deadline: float, on_end: Callable[[], None]) -> PendingLabels:
        """Ask for the labels of pairs, the most important first; those that the score cache has are there at once.

        Args:
            pairs: (query, passage) texts.
            deadline: when the labels are of no use any more, by the clock `time.monotonic`; infinity: never.
            on_end: called once, by whatever thread, when all labels are there, when there is no time for more of them,
                or when the re-ranker has failed.
        """
        now, lookup = time.monotonic(), getattr(self._reranker, "lookup", None)
        known = lookup(pairs) if lookup else np.full(len(pairs), np.nan)
        missing = np.flatnonzero(np.isnan(known))
        request = LabelRequest([pairs[position] for position in missing.tolist()], deadline, now, on_end)
        if len(missing):
            with self._changed:
                self._waiting.append(request)
                self._changed.notify()
        else:
            request.end()
        return PendingLabels(request, known, missing, now)

    def close(self) -> None:
        """Finish what waits, and end the thread. Nobody may ask for labels after that."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                call = next_call(self._waiting, self.cost, now=time.monotonic(), least=self._least)
                self._waiting = [request for request in self._waiting if request.left and not request.ended]
            if call:
                self._score(call)

    def _score(self, call: Sequence[Chosen]) -> None:
        pairs = [chosen.pair for chosen in call]
        requests = {id(request): request for request, _ in call}.values()
        start = time.monotonic()
        try:
            scores, computed = score_pairs_counted(self._reranker, pairs)
        except Exception as error:  # whatever it is, those that wait are told, and the next call is made
            if len(requests) > 1 and time.monotonic() - start < DOWN_SECONDS:
                for request in requests:  # a passage of one of them may be the reason: the others have no part in it
                    if not request.ended:
                        self._score([chosen for chosen in call if chosen.request is request])
                return
            for request in requests:
                request.end(error)
            return
        if computed == len(pairs):
            self.cost.learn(pairs, time.monotonic() - start)
        self.calls, self.labels = self.calls + 1, self.labels + len(pairs)
        for (request, position), score in zip(call, scores.tolist(), strict=True):
            request.scores[position] = score
        for request in requests:
            if not np.isnan(request.scores).any():
                request.end()
