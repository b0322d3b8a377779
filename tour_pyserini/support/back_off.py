"""How long to wait before a failed request is repeated."""

import random

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the first repetition of a request, and most seconds before any; each wait is twice the one before."""


def back_off(attempt: int) -> float:
    """Seconds until the next try; partly random, so that clients that failed together do not return together."""
    return min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)
