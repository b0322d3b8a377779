"""Which pairs go into the next call of the re-ranker: those that are due first, in calls that end in time."""

import math
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.service.label_cost import LabelCost

CALL_SECONDS = 0.05
"""How long the pairs of a call should take, by forecast: who comes meanwhile waits no longer."""
SLICE = 0.5
"""Share of the time to the first deadline that a call should take: one that lasts longer than expected is still in
time, and as the deadline comes nearer, calls become small and little is lost with the last one."""
CALL_PAIRS = 256
"""Most pairs of a call."""
PATIENCE = 1.0
"""Seconds after which labels without a deadline count as due: those with a deadline go first, but not forever."""


class Purchase:
    """Labels that a search waits for.

    Attributes:
        pairs: what is to be scored, the most important first.
        deadline: when the labels are of no use any more, by the clock `time.monotonic`; infinity: never.
        due: who is due first is served first.
        scores: [n] the labels; NaN where there is none yet.
        taken: pairs that went into a call.
    """

    def __init__(self, pairs: Sequence[Pair], deadline: float, now: float) -> None:
        self.pairs, self.deadline = pairs, deadline
        self.due = min(deadline, now + PATIENCE)
        self.scores: Floats = np.full(len(pairs), np.nan)
        self.taken = 0
        self.error: Exception | None = None
        self.ended = threading.Event()

    @property
    def left(self) -> int:
        """Pairs that did not go into a call yet."""
        return len(self.pairs) - self.taken

    @property
    def next(self) -> Pair:
        """The first pair that did not go into a call yet."""
        return self.pairs[self.taken]

    def take(self) -> "Chosen":
        """Take that pair into a call."""
        self.taken += 1
        return Chosen(self, self.taken - 1)

    def end(self, error: Exception | None = None) -> None:
        """Let the waiting search go on with what there is."""
        self.error = self.error or error
        self.ended.set()


class Chosen(NamedTuple):
    """A pair of a call: its purchase, and its position there."""

    purchase: Purchase
    position: int

    @property
    def pair(self) -> Pair:
        """Query and passage."""
        return self.purchase.pairs[self.position]


def next_call(waiting: Sequence[Purchase], cost: LabelCost, *, now: float, least: int = 1) -> list[Chosen]:
    """Take the pairs of the next call from the purchases; one whose next pair cannot be scored in time ends.

    A call takes pairs in the order in which they are due, as long as it ends in time for all of its purchases, by the
    forecast with its margin, and is no longer than it should be: see `CALL_SECONDS` and `SLICE`. Where a call costs
    much by itself, its pairs may take as long as that. Where no purchase has time for a pair and no call was made for a
    while, one pair is scored all the same: see `LabelCost.needs_trial`.

    Args:
        waiting: what the pairs are taken from.
        cost: the forecast.
        now: the time.
        least: pairs that a call may always have if they are in time: as many as are scored in parallel.
    """
    ready = sorted((one for one in waiting if not one.ended.is_set()), key=lambda one: one.due)
    late = [one for one in ready if now + cost.seconds(1, cost.tokens(one.next)) * cost.margin > one.deadline]
    in_time = [one for one in ready if one not in late]
    trial = None if in_time else _trial(late, cost, now)
    for purchase in late:
        if purchase is not trial:
            purchase.end()
    call = [trial.take()] if trial else _call(in_time, cost, now=now, least=least)
    if call:
        cost.begin(now, trial=trial is not None)
    return call


def _trial(late: Sequence[Purchase], cost: LabelCost, now: float) -> Purchase | None:
    """The purchase, of those that are late by forecast, whose next pair is scored all the same to renew the forecast.

    Without a call nothing is learnt: after slow calls, searches with a deadline would never get a label again.
    """
    trial = max(late, key=lambda one: one.deadline, default=None)
    return trial if trial and trial.deadline > now and cost.needs_trial(trial.next, now) else None


def _call(purchases: Sequence[Purchase], cost: LabelCost, *, now: float, least: int) -> list[Chosen]:
    """The pairs of a call from purchases of which each has time for one, in the order in which they are due."""
    call: list[Chosen] = []
    tokens, first_deadline = 0.0, math.inf
    for purchase in purchases:
        first_deadline = min(first_deadline, purchase.deadline)
        longest = cost.per_call + max(cost.per_call, min(CALL_SECONDS, SLICE * (first_deadline - now)))
        while purchase.left and len(call) < CALL_PAIRS:
            more = tokens + cost.tokens(purchase.next)
            seconds = cost.seconds(len(call) + 1, more)
            if now + seconds * cost.margin > first_deadline or (len(call) >= least and seconds > longest):
                return call
            call.append(purchase.take())
            tokens = more
    return call
