"""Labels within a deadline: what they will cost, and which of them go into the next call of the re-ranker."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from tour_pyserini.core.arrays import Floats
from tour_pyserini.rerankers.reranker import Pair, score_pairs_counted

CHARACTERS = 4.0
"""Characters of a token, about: pairs are not tokenised for a forecast. The fit takes up what this is wrong by."""
RECENT = 100
"""Measured calls that a forecast is made from."""
LEAST_MARGIN, LARGEST_MARGIN = 1.15, 4.0
SAFE = 0.95
"""Share of the recent calls that a forecast with its margin would have been long enough for."""

PAUSE = 2.0
"""Seconds without a call after which one pair is scored whatever the forecast: what was slow may be fast again."""
TRIAL_SHARE = 0.1
"""Most of the time that such trials take, by forecast."""

CALL_SECONDS = 0.05
"""How long the pairs of a call should take, by forecast: who comes meanwhile waits no longer."""
SLICE = 0.5
"""Share of the time to the first deadline that a call should take: one that lasts longer than expected is still in
time, and as the deadline comes nearer, calls become small and little is lost with the last one."""
CALL_PAIRS = 256
"""Most pairs of a call."""
GROWTH = 2
"""What calls tell of larger ones: with a deadline, a call has at most so many times the pairs of any that was measured.
Where all of them had one pair, so many are tried: whether a pair costs anything beside the call is not known then."""
PATIENCE = 1.0
"""Seconds after which labels without a deadline count as due: those with a deadline go first, but not forever."""


class LabelCost:
    """Seconds of a call of the re-ranker: so many for the call, for each pair, and for each token.

    Args:
        max_length: tokens that the model reads of a pair, if that is known.

    Attributes:
        per_call: seconds that a call takes however few its pairs are: a network, or cores without work.
        margin: the factor that makes a forecast long enough for nearly all calls.
        last_call: when the last call was begun, by the clock `time.monotonic`.
    """

    def __init__(self, *, max_length: int | None = None) -> None:
        self.per_call, self.margin = 0.0, LEAST_MARGIN
        self.last_call = time.monotonic()
        self._max_length = max_length
        self._measured: deque[tuple[int, float, float]] = deque(maxlen=RECENT)  # pairs, their tokens, seconds
        self._per_pair = self._per_token = 0.0

    @property
    def largest_call(self) -> int:
        """Most pairs of a measured call; 0 before anything was measured."""
        return max((pairs for pairs, _, _ in self._measured), default=0)

    def tokens(self, pair: Pair) -> float:
        """Tokens of a pair, about."""
        tokens = (len(pair[0]) + len(pair[1])) / CHARACTERS
        return tokens if self._max_length is None else min(tokens, self._max_length)

    def seconds(self, pairs: int, tokens: float) -> float:
        """The forecast for a call with so many pairs and tokens, without the margin; 0 before anything was measured."""
        return self.per_call + self._per_pair * pairs + self._per_token * tokens

    def is_old(self, pair: Pair, now: float) -> bool:
        """Whether the last call is so long ago that this pair should be scored to renew the forecast."""
        return now - self.last_call > max(PAUSE, self.seconds(1, self.tokens(pair)) / TRIAL_SHARE)

    def forget(self) -> None:
        """Begin anew: what was measured says nothing any more."""
        self._measured.clear()
        self.per_call = self._per_pair = self._per_token = 0.0

    def learn(self, pairs: Sequence[Pair], seconds: float) -> None:
        """Take a call into account in which all pairs were computed, none looked up."""
        if not pairs or seconds <= 0:
            return
        self._measured.append((len(pairs), sum(map(self.tokens, pairs)), seconds))
        counts, lengths, times = np.array(self._measured).T
        columns = np.stack([np.ones(len(times)), counts, lengths], axis=1)
        # Least squares of relative errors: a long call must not outweigh the short ones. No cost is negative.
        try:
            (per_call, per_pair, per_token), _ = nnls(columns / times[:, None], np.ones(len(times)))
        except RuntimeError:  # it did not converge: the forecast stays as it was, and the next call brings another one
            return
        self.per_call, self._per_pair, self._per_token = float(per_call), float(per_pair), float(per_token)
        errors = times / (columns @ [per_call, per_pair, per_token])
        self.margin = float(np.clip(np.quantile(errors, SAFE), LEAST_MARGIN, LARGEST_MARGIN))


class LabelRequest:
    """Labels that a search waits for.

    Attributes:
        pairs: what is to be scored, the most important first.
        deadline: when the labels are of no use any more, by the clock `time.monotonic`; infinity: never.
        due: who is due first is served first.
        scores: [n] the labels; NaN where there is none yet.
        taken: pairs that went into a call.
        error: what the re-ranker raised.
        ended: whether nobody waits for labels any more.
    """

    def __init__(
        self, pairs: Sequence[Pair], deadline: float, now: float, on_end: Callable[[], object] = lambda: None
    ) -> None:
        """Ask for labels now; `on_end` is called once, when the request ends."""
        self.pairs, self.deadline, self._on_end = pairs, deadline, on_end
        self.due = min(deadline, now + PATIENCE)
        self.scores: Floats = np.full(len(pairs), np.nan)
        self.taken = 0
        self.error: Exception | None = None
        self.ended = False

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
        """Let whoever waits go on with what there is."""
        if not self.ended:
            self.error, self.ended = error, True
            self._on_end()


class Chosen(NamedTuple):
    """A pair of a call: its request, and its position there."""

    request: LabelRequest
    position: int

    @property
    def pair(self) -> Pair:
        """Query and passage."""
        return self.request.pairs[self.position]


def next_call(waiting: Sequence[LabelRequest], cost: LabelCost, *, now: float, least: int = 1) -> list[Chosen]:
    """Take the pairs of the next call from the requests; one whose next pair cannot be scored in time ends.

    A call takes pairs in the order in which they are due, as long as it ends in time for all of its requests, by the
    forecast with its margin, and is no longer than it should be: see `CALL_SECONDS` and `SLICE`. Where a call costs
    much by itself, its pairs may take as long as that. Before anything was measured, one pair tells what a label costs.
    So it does where no request has time for a pair and no call was made for a while: without a call nothing is learnt,
    and after slow calls, searches with a deadline would never get a label again.

    Args:
        waiting: what the pairs are taken from.
        cost: the forecast.
        now: the time.
        least: pairs that a call may always have if they are in time: as many as are scored in parallel.
    """
    ready = sorted((one for one in waiting if not one.ended), key=lambda one: one.due)
    late = [one for one in ready if now + cost.seconds(1, cost.tokens(one.next)) * cost.margin > one.deadline]
    in_time = [one for one in ready if one not in late]
    last = max(late, key=lambda one: one.deadline, default=None)
    if not in_time and last and last.deadline > now and cost.is_old(last.next, now):
        cost.forget()
        late.remove(last)
        in_time, least = [last], 1
    for request in late:
        request.end()
    call = _pairs_of_call(in_time, cost, now=now, least=least)
    if call:
        cost.last_call = now
    return call


def _pairs_of_call(requests: Sequence[LabelRequest], cost: LabelCost, *, now: float, least: int) -> list[Chosen]:
    """The pairs of a call from requests of which each has time for one, in the order in which they are due."""
    call: list[Chosen] = []
    tokens, first_deadline = 0.0, math.inf
    least = max(least, GROWTH) if cost.largest_call == 1 else least
    known = max(least, GROWTH * cost.largest_call)
    for request in requests:
        first_deadline = min(first_deadline, request.deadline)
        longest = cost.per_call + max(cost.per_call, min(CALL_SECONDS, SLICE * (first_deadline - now)))
        most = CALL_PAIRS if math.isinf(first_deadline) else min(CALL_PAIRS, known)
        while request.left and len(call) < most:
            more = tokens + cost.tokens(request.next)
            seconds = cost.seconds(len(call) + 1, more)
            if now + seconds * cost.margin > first_deadline or (len(call) >= least and seconds > longest):
                return call
            call.append(request.take())
            tokens = more
    return call


def score_until(reranker: Any, pairs: Sequence[Pair], deadline: float, cost: LabelCost) -> tuple[Floats, int]:
    """Score pairs, the first ones first, as long as there is time.

    Args:
        reranker: any re-ranker; scores that its cache has take no time.
        pairs: (query, passage) texts.
        deadline: when the scores must be there, by the clock `time.monotonic`.
        cost: the forecast, which learns from each call.

    Returns:
        The scores [n], NaN where there was no time; and how many were computed.
    """
    known = reranker.lookup(pairs) if hasattr(reranker, "lookup") else np.full(len(pairs), np.nan)
    missing = np.flatnonzero(np.isnan(known))
    waiting = LabelRequest([pairs[position] for position in missing.tolist()], deadline, time.monotonic())
    while waiting.left and not waiting.ended:
        if call := next_call([waiting], cost, now=time.monotonic()):
            asked, start = [chosen.pair for chosen in call], time.monotonic()
            scores, computed = score_pairs_counted(reranker, asked)
            cost.learn(asked[:computed], time.monotonic() - start)
            waiting.scores[[chosen.position for chosen in call]] = scores
    known[missing] = waiting.scores
    return known, int((~np.isnan(waiting.scores)).sum())
