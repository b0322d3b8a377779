"""What labels will cost: a forecast from what they have cost so far."""

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from tour_pyserini.rerankers.reranker import Pair

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
WRONG = 0.5
"""A trial that takes less than this share of its forecast shows that older calls say nothing any more."""


class _Measured(NamedTuple):
    """A call of the re-ranker: how many pairs, their tokens in all, and its seconds."""

    pairs: int
    tokens: float
    seconds: float


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
        self._is_trial = False
        self._max_length = max_length
        self._measured: deque[_Measured] = deque(maxlen=RECENT)
        self._per_pair = self._per_token = 0.0

    def tokens(self, pair: Pair) -> float:
        """Tokens of a pair, about."""
        tokens = (len(pair[0]) + len(pair[1])) / CHARACTERS
        return tokens if self._max_length is None else min(tokens, self._max_length)

    def seconds(self, pairs: int, tokens: float) -> float:
        """The forecast for a call with so many pairs and tokens, without the margin; 0 before anything was measured."""
        return self.per_call + self._per_pair * pairs + self._per_token * tokens

    def begin(self, now: float, *, trial: bool = False) -> None:
        """Note that a call begins; a trial is one that will be late by forecast."""
        self.last_call, self._is_trial = now, trial

    def needs_trial(self, pair: Pair, now: float) -> bool:
        """Whether the forecast is so old that this pair should be scored to renew it."""
        return now - self.last_call > max(PAUSE, self.seconds(1, self.tokens(pair)) / TRIAL_SHARE)

    def learn(self, pairs: Sequence[Pair], seconds: float) -> None:
        """Take a call into account in which all pairs were computed, none looked up."""
        if not pairs or seconds <= 0:
            return
        measured = _Measured(len(pairs), sum(map(self.tokens, pairs)), seconds)
        if self._is_trial and seconds < WRONG * self.seconds(measured.pairs, measured.tokens):
            self._measured.clear()
        self._measured.append(measured)
        counts, lengths, times = np.array(self._measured).T
        columns = np.stack([np.ones(len(times)), counts, lengths], axis=1)
        # Least squares of relative errors: a long call must not outweigh the short ones. No cost is negative.
        (per_call, per_pair, per_token), _ = nnls(columns / times[:, None], np.ones(len(times)))
        self.per_call, self._per_pair, self._per_token = float(per_call), float(per_pair), float(per_token)
        errors = times / (columns @ [per_call, per_pair, per_token])
        self.margin = float(np.clip(np.quantile(errors, SAFE), LEAST_MARGIN, LARGEST_MARGIN))
