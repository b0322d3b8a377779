"""What a run gains over another, query by query."""

from typing import NamedTuple

import numpy as np

# A smaller difference comes from rounding, not from the ranking.
TIE = 1e-9


class Outcomes(NamedTuple):
    """Queries on which a run is better than the baseline, as good, and worse."""

    wins: int
    ties: int
    losses: int


def gains(values: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Values minus the baseline's values, both float64 [queries]; exactly 0 where the two are tied."""
    difference = values - baseline
    return np.where(np.abs(difference) < TIE, 0.0, difference)


def outcomes(gained: np.ndarray) -> Outcomes:
    """Count the signs of gains."""
    wins, losses = int((gained > 0).sum()), int((gained < 0).sum())
    return Outcomes(wins, gained.size - wins - losses, losses)
