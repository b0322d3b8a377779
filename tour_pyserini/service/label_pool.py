"""Labels of all searches in one place: what is asked for at the same time goes to the re-ranker in one call."""

import math
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.rerankers.reranker import Pair, score_pairs_counted
from tour_pyserini.service.label_calls import Chosen, Purchase, next_call
from tour_pyserini.service.label_cost import LabelCost

_WAKE = 0.05
"""Seconds after which a waiting search looks whether it was cancelled."""

DOWN_SECONDS = 1.0
"""A call that fails sooner is made again for each search alone; what takes longer is a service that is down."""


class CancelledError(Exception):
    """Nobody waits for these labels any more."""


class LabelPool:
    """Calls the re-ranker for all searches, in a thread of its own; a search that begins joins the next call.

    Args:
        reranker: where labels come from, with its score cache.
        cost: the forecast, which learns from each call.
        least: pairs that a call may always have if they are in time: as many as are scored in parallel.
    """

    def __init__(self, reranker: Any, cost: LabelCost, *, least: int = 1) -> None:
        self.cost, self._least = cost, least
        self.calls = self.labels = 0
        self._reranker = reranker
        self._waiting: list[Purchase] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="labels", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Pairs that wait for a call."""
        with self._changed:
            return sum(purchase.left for purchase in self._waiting)

    def buy(
        self, pairs: Sequence[Pair], *, deadline: float = math.inf, cancelled: threading.Event | None = None
    ) -> tuple[Floats, int]:
        """Wait until the pairs are labelled, or until the deadline.

        Returns:
            The labels [n], NaN where there was no time; and how many pairs were not in the score cache.

        Raises:
            CancelledError: if `cancelled` is set meanwhile; labels of a call that runs are kept in the score cache.
            Exception: what the re-ranker raised.
        """
        kept = getattr(self._reranker, "kept", None)
        scores = kept(pairs) if kept else np.full(len(pairs), np.nan)
        missing = np.flatnonzero(np.isnan(scores))
        if len(missing):
            purchase = Purchase([pairs[position] for position in missing.tolist()], deadline, time.monotonic())
            self._wait_for(purchase, cancelled)
            scores[missing] = purchase.scores
        return scores, len(missing)

    def _wait_for(self, purchase: Purchase, cancelled: threading.Event | None) -> None:
        with self._changed:
            if self._closing:
                raise CancelledError
            self._waiting.append(purchase)
            self._changed.notify()
        while not purchase.ended.wait(min(max(purchase.deadline - time.monotonic(), 0), _WAKE)):
            if cancelled is not None and cancelled.is_set():
                purchase.end(CancelledError())
            elif time.monotonic() >= purchase.deadline:
                purchase.end()
        if purchase.error is not None:
            raise purchase.error

    def close(self) -> None:
        """Finish what is waiting, and end the thread."""
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
                self._waiting = [one for one in self._waiting if one.left and not one.ended.is_set()]
            if call:
                self._serve(call)

    def _serve(self, call: Sequence[Chosen]) -> None:
        pairs = [chosen.pair for chosen in call]
        purchases = {id(purchase): purchase for purchase, _ in call}.values()
        start = time.monotonic()
        try:
            scores, computed = score_pairs_counted(self._reranker, pairs)
        except Exception as error:  # whatever it is, those that wait are told, and the next call is made
            if len(purchases) > 1 and time.monotonic() - start < DOWN_SECONDS:
                for purchase in purchases:  # a passage of one of them may be the reason: the others have no part in it
                    if not purchase.ended.is_set():
                        self._serve([chosen for chosen in call if chosen.purchase is purchase])
                return
            for purchase in purchases:
                purchase.end(error)
            return
        if computed == len(pairs):
            self.cost.learn(pairs, time.monotonic() - start)
        self.calls, self.labels = self.calls + 1, self.labels + len(pairs)
        for (purchase, position), score in zip(call, scores.tolist(), strict=True):
            purchase.scores[position] = score
        for purchase in purchases:
            if not np.isnan(purchase.scores).any():
                purchase.end()
