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
    much by itself, its pairs may take as long as that.

    Args:
        waiting: what the pairs are taken from.
        cost: the forecast.
        now: the time.
        least: pairs that a call may always have if they are in time: as many as are scored in parallel.
    """
    call: list[Chosen] = []
    tokens, first_deadline = 0.0, math.inf
    for purchase in sorted((one for one in waiting if not one.ended.is_set()), key=lambda one: one.due):
        alone = cost.seconds(1, cost.tokens(purchase.pairs[purchase.taken]))
        if now + alone * cost.margin > purchase.deadline:
            purchase.end()
            continue
        first_deadline = min(first_deadline, purchase.deadline)
        longest = cost.per_call + max(cost.per_call, min(CALL_SECONDS, SLICE * (first_deadline - now)))
        while purchase.left and len(call) < CALL_PAIRS:
            more = tokens + cost.tokens(purchase.pairs[purchase.taken])
            seconds = cost.seconds(len(call) + 1, more)
            if now + seconds * cost.margin > first_deadline or (len(call) >= least and seconds > longest):
                return call
            call.append(Chosen(purchase, purchase.taken))
            purchase.taken += 1
            tokens = more
    return call
