"""Labels of all searches in one place: what is asked for at the same time goes to the re-ranker in one call."""

import math
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.rerankers.reranker import Pair, counted_scores
from tour_pyserini.service.label_cost import LabelCost

CALL_SECONDS = 0.1
"""How long the pairs of a call should take, by forecast: who comes meanwhile waits no longer."""
PATIENCE = 1.0
"""Seconds after which labels without a deadline count as due: those with a deadline go first, but not forever."""
CALL_PAIRS = 256
"""Most pairs of a call."""
_WAKE = 0.05
"""Seconds after which a waiting search looks whether it was cancelled."""


class CancelledError(Exception):
    """Nobody waits for these labels any more."""


class Purchase:
    """Labels that a search waits for.

    Attributes:
        pairs: what is to be scored, the most important first.
        deadline: when the labels are of no use any more, by the clock `time.monotonic`; infinity: never.
        due: who is due first is served first.
        scores: [n] the labels; NaN where there is none yet.
    """

    def __init__(self, pairs: Sequence[Pair], deadline: float) -> None:
        self.pairs, self.deadline = pairs, deadline
        self.due = min(deadline, time.monotonic() + PATIENCE)
        self.scores: Floats = np.full(len(pairs), np.nan)
        self.error: Exception | None = None
        self.taken = 0  # pairs that went into a call
        self.ended = threading.Event()

    def end(self, error: Exception | None = None) -> None:
        """Let the waiting search go on with what there is."""
        self.error = self.error or error
        self.ended.set()


class LabelPool:
    """Calls the re-ranker for all searches, in a thread of its own.

    A call takes pairs in the order in which they are due until they would take longer than `CALL_SECONDS`, or longer
    than a call takes anyway, or too long for a deadline of one of its searches. So searches advance together; one that
    begins joins the next call.

    Args:
        reranker: where labels come from, with its score cache.
        cost: the forecast, which learns from each call.
        least: pairs of a call, if so many are waiting and have time: no fewer than are scored in parallel.
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
            return sum(len(purchase.pairs) - purchase.taken for purchase in self._waiting)

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
            purchase = Purchase([pairs[position] for position in missing.tolist()], deadline)
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
                call = self._next_call()
            if call:
                self._serve(call)

    def _next_call(self) -> list[tuple[Purchase, int]]:
        """The pairs of the next call, each as its purchase and its position; what is late or cancelled leaves."""
        call: list[tuple[Purchase, int]] = []
        tokens, now, limit = 0.0, time.monotonic(), math.inf
        longest = self.cost.per_call + max(self.cost.per_call, CALL_SECONDS)
        waiting = [purchase for purchase in self._waiting if not purchase.ended.is_set()]
        for purchase in sorted(waiting, key=lambda one: one.due):
            soonest = min(limit, purchase.deadline)
            while purchase.taken < len(purchase.pairs):
                more = tokens + self.cost.tokens(purchase.pairs[purchase.taken])
                seconds = self.cost.seconds(len(call) + 1, more)
                if now + seconds * self.cost.margin > soonest:
                    if not call:
                        purchase.end()  # not even one pair can be scored in time
                    break
                if len(call) == CALL_PAIRS or (len(call) >= self._least and seconds > longest):
                    break
                call.append((purchase, purchase.taken))
                tokens, limit = more, soonest
                purchase.taken += 1
        self._waiting = [one for one in waiting if one.taken < len(one.pairs) and not one.ended.is_set()]
        return call

    def _serve(self, call: list[tuple[Purchase, int]]) -> None:
        pairs = [purchase.pairs[position] for purchase, position in call]
        purchases = {id(purchase): purchase for purchase, _ in call}.values()
        start = time.monotonic()
        try:
            scores, computed = counted_scores(self._reranker, pairs)
        except Exception as error:  # whatever it is, those that wait are told, and the next call is made
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
