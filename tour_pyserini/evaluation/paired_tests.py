"""Paired tests of two runs: randomisation and t test, Holm's correction, wins and losses."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values, in the order given: the chance of any false discovery is at most the level compared with.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for smaller, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - smaller) * p_values[at]))
        adjusted[at] = highest
    return adjusted


ENUMERATED_UP_TO = 12
SAMPLES = 100_000
SEED = 20230709
# Signs held in memory at once; 8 bytes each.
_HELD = 1 << 20


def randomisation_p(gained: np.ndarray) -> float:
    """The two-sided p value of a mean gain under random signs.

    All sign patterns are enumerated when at most 12 gains differ from 0, and 100,000 are sampled otherwise, always the
    same ones. Gains of 0 have no sign to flip and change nothing.

    Args:
        gained: differences between two runs, float64 [queries].

    Returns:
        A value in (0, 1].

    Example:
        >>> randomisation_p(np.array([0.1, 0.2, 0.3]))  # 2 of the 8 patterns are as extreme
        0.25
    """
    nonzero = gained[gained != 0]
    return enumerated_p(nonzero) if nonzero.size <= ENUMERATED_UP_TO else sampled_p(nonzero)


def enumerated_p(gained: np.ndarray) -> float:
    """The exact share of all 2^n sign patterns whose sum is at least as far from 0."""
    patterns = np.arange(1 << gained.size, dtype=np.uint64)
    flips = (patterns[:, None] >> np.arange(gained.size, dtype=np.uint64)) & np.uint64(1)
    return _as_extreme(flips, gained) / patterns.size


def sampled_p(gained: np.ndarray, samples: int = SAMPLES, seed: int = SEED) -> float:
    """The same from random sign patterns: (1 + those as extreme) / (1 + samples)."""
    random = np.random.default_rng(seed)
    width = -(-gained.size // 8)
    count, left = 0, samples
    while left:
        rows = min(left, max(1, _HELD // max(gained.size, 1)))
        packed = random.integers(0, 256, size=(rows, width), dtype=np.uint8)
        count += _as_extreme(np.unpackbits(packed, axis=1, count=gained.size), gained)
        left -= rows
    return (1 + count) / (1 + samples)


def _as_extreme(flips: np.ndarray, gained: np.ndarray) -> int:
    """How many rows of flips (0 or 1) [patterns, n] leave a sum at least as far from 0 as the gains' own."""
    total = gained.sum()
    sums = total - 2 * (flips.astype(np.float64) @ gained)
    # Patterns that are equal on paper must count, whatever the order of addition made of them.
    slack = 1e-12 * np.abs(gained).sum()
    return int((np.abs(sums) >= abs(total) - slack).sum())


def t_p(gained: np.ndarray) -> float:
    """The two-sided p value of the paired t test on differences, float64 [queries]; 1 where they say nothing."""
    if gained.size < 2 or not gained.any():
        return 1.0
    try:
        from scipy import stats
    except ImportError as missing:
        raise TourError("the t test needs scipy; run: pip install scipy") from missing

    # Differences that are all equal divide by 0: t is infinite, and p the smallest number above 0.
    with np.errstate(all="ignore"):
        mean, error = gained.mean(), gained.std(ddof=1) / math.sqrt(gained.size)
        p = 2 * stats.t.sf(abs(mean / error), gained.size - 1)
    return max(float(p), float(np.finfo(np.float64).tiny))


TESTS: Mapping[str, Callable[[np.ndarray], float]] = MappingProxyType({"randomisation": randomisation_p, "t": t_p})
TITLES: Mapping[str, str] = MappingProxyType({"randomisation": "paired randomisation test", "t": "paired t test"})

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
