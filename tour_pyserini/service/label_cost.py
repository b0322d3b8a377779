"""What labels will cost: a forecast from what they have cost so far."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tour_pyserini.rerankers.reranker import Pair

CHARACTERS = 4.0
"""Characters of a token, about: pairs are not tokenised for a forecast. The fit takes up what this is wrong by."""
RECENT = 200
"""Measured calls that a forecast is made from."""
LEAST_MARGIN, LARGEST_MARGIN = 1.15, 4.0
SAFE = 0.95
"""Share of the recent calls that a forecast with its margin would have been long enough for."""


class _Measured(NamedTuple):
    """A call of the re-ranker: how many pairs, their tokens in all, and its seconds."""

    pairs: float
    tokens: float
    seconds: float


class LabelCost:
    """Seconds of a call of the re-ranker: so many for a pair, and so many for each of its tokens.

    Args:
        max_length: tokens that the model reads of a pair, if that is known.
        workers: pairs that are scored at a time. A call lasts as long as one with the next multiple of it.

    Attributes:
        margin: the factor that makes a forecast long enough for nearly all calls.
    """

    def __init__(self, *, max_length: int | None = None, workers: int = 1) -> None:
        self.workers = max(workers, 1)
        self.margin = LEAST_MARGIN
        self._max_length = max_length
        self._measured: deque[_Measured] = deque(maxlen=RECENT)
        self._per_pair = self._per_token = 0.0

    def tokens(self, pair: Pair) -> float:
        """Tokens of a pair, about."""
        tokens = (len(pair[0]) + len(pair[1])) / CHARACTERS
        return tokens if self._max_length is None else min(tokens, self._max_length)

    def seconds(self, pairs: int, tokens: float) -> float:
        """The forecast for a call with so many pairs and tokens, without the margin; 0 before anything was measured."""
        share = self._share(pairs)
        return share * (self._per_pair * pairs + self._per_token * tokens)

    def learn(self, pairs: Sequence[Pair], seconds: float) -> None:
        """Take a call into account in which all pairs were computed, none looked up."""
        if not pairs or seconds <= 0:
            return
        share = self._share(len(pairs))
        tokens = sum(map(self.tokens, pairs))
        self._measured.append(_Measured(share * len(pairs), share * tokens, seconds))
        counts, lengths, times = np.array(self._measured).T
        # Least squares of relative errors: a long call must not outweigh the short ones.
        columns = np.stack([counts, lengths], axis=1) / times[:, None]
        (per_pair, per_token), *_ = np.linalg.lstsq(columns, np.ones(len(times)), rcond=None)
        if per_pair < 0 or per_token < 0:  # lengths that hardly differ do not tell the two apart
            per_pair, per_token = 0.0, 1 / float(columns[:, 1].mean())
        self._per_pair, self._per_token = float(per_pair), float(per_token)
        errors = times / (per_pair * counts + per_token * lengths)
        self.margin = float(np.clip(np.quantile(errors, SAFE), LEAST_MARGIN, LARGEST_MARGIN))

    def _share(self, pairs: int) -> float:
        """How much longer a call lasts because some workers have nothing to do at its end."""
        return -(-pairs // self.workers) * self.workers / pairs if pairs else 0.0
