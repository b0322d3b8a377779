"""The time that a search keeps free after its last label: what searches like it have needed."""

from collections import defaultdict, deque

import numpy as np

RECENT = 100
"""Searches of a kind that the time is taken from."""
SAFE = 0.99
"""Share of the recent searches that it would have been enough for."""


class TimeKept:
    """Seconds from the last label of a search until its answer is sent: update, retrieval, ranking, writing.

    They differ by method (re-ranking has no update) and by the length of the list, in steps of two.

    Args:
        first: what stands for searches of a kind that there was none of yet.
    """

    def __init__(self, first: float) -> None:
        self._recent: defaultdict[tuple[str, int], deque[float]] = defaultdict(lambda: deque([first], maxlen=RECENT))

    def seconds(self, method: str, hits: int) -> float:
        """Seconds that are enough for nearly all searches with this method and length."""
        return float(np.quantile(list(self._recent[method, hits.bit_length()]), SAFE))

    def learn(self, method: str, hits: int, seconds: float) -> None:
        """Take into account what a search has needed."""
        self._recent[method, hits.bit_length()].append(seconds)
