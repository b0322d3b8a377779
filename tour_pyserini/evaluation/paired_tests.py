"""Paired tests of runs against a baseline: randomisation test, t test, Holm's correction, wins, ties and losses."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tour_pyserini.evaluation.measures import MeasuredRun

_TIE = 1e-9  # a smaller difference comes from rounding, not from the ranking
ENUMERATED_UP_TO = 12
_SAMPLES = 100_000
_SEED = 20230709
_RESAMPLED = 2_000
_SIGNS_AT_ONCE = 1 << 20  # held in memory, 8 bytes each


class _Outcomes(NamedTuple):
    """Queries on which a run is better than the baseline, as good, and worse."""

    wins: int
    ties: int
    losses: int


class _PooledGain(NamedTuple):
    """The mean gain over collections, each of which counts the same: its 95 % confidence interval, and its p value."""

    mean: float
    low: float
    high: float
    p: float


def gains(values: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Values minus the baseline's values, both float64 [queries]; exactly 0 where the two are tied."""
    difference = values - baseline
    return np.where(np.abs(difference) < _TIE, 0.0, difference)


def outcomes(gained: np.ndarray) -> _Outcomes:
    """How many gains are above 0, 0 and below 0."""
    wins, losses = int((gained > 0).sum()), int((gained < 0).sum())
    return _Outcomes(wins, gained.size - wins - losses, losses)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given.

    Rejecting those that are at most alpha keeps the probability of any false rejection at most alpha.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for smaller, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - smaller) * p_values[position]))
        adjusted[position] = highest
    return adjusted


def randomisation_p(gained: np.ndarray) -> float:
    """The two-sided p value of a mean gain under random signs.

    All sign patterns are enumerated when at most 12 gains differ from 0. Otherwise 100,000 patterns are sampled, with
    a fixed seed. Gains of 0 have no sign to flip and change nothing.

    Args:
        gained: differences between two runs, float64 [queries].

    Returns:
        A value in (0, 1].

    Example:
        >>> randomisation_p(np.array([0.1, 0.2, 0.3]))  # 2 of the 8 patterns are as extreme
        0.25
    """
    nonzero = gained[gained != 0]
    return _enumerated_p(nonzero) if nonzero.size <= ENUMERATED_UP_TO else _sampled_p(nonzero)


def _enumerated_p(gained: np.ndarray) -> float:
    """The exact share of all 2^n sign patterns whose sum is at least as far from 0 as the observed sum."""
    patterns = np.arange(1 << gained.size, dtype=np.uint64)
    flips = (patterns[:, None] >> np.arange(gained.size, dtype=np.uint64)) & np.uint64(1)
    return _as_extreme(flips, gained) / patterns.size


def _sampled_p(gained: np.ndarray) -> float:
    """The same share estimated from random sign patterns: (1 + those as extreme) / (1 + samples)."""
    random = np.random.default_rng(_SEED)
    width = -(-gained.size // 8)
    count, left = 0, _SAMPLES
    while left:
        rows = min(left, max(1, _SIGNS_AT_ONCE // max(gained.size, 1)))
        packed = random.integers(0, 256, size=(rows, width), dtype=np.uint8)
        count += _as_extreme(np.unpackbits(packed, axis=1, count=gained.size), gained)
        left -= rows
    return (1 + count) / (1 + _SAMPLES)


def pooled_gain(collections: Sequence[np.ndarray]) -> _PooledGain:
    """The mean over collections of their mean gains.

    The interval is that of the bootstrap, which draws queries anew within each collection (percentiles 2.5 and 97.5 of
    2,000 draws); NaN if a collection has fewer than two queries. The p value is that of the paired randomisation test,
    with the same weights.

    Args:
        collections: the gains of each collection, float64 [queries].

    Example:
        >>> pooled_gain([np.array([0.2, 0.2, 0.2]), np.array([0.4, 0.4])])
        _PooledGain(mean=0.3, low=0.3, high=0.3, p=0.0625)
    """
    from scipy import stats

    def mean_of_means(*drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.mean([gained.mean(axis) for gained in drawn], axis=0)

    low = high = math.nan
    if min(gained.size for gained in collections) > 1:
        drawn = stats.bootstrap(
            collections, mean_of_means, n_resamples=_RESAMPLED, batch=100, method="percentile", rng=_SEED
        )
        low, high = drawn.confidence_interval
    weighted = np.concatenate([gained / (gained.size * len(collections)) for gained in collections])
    mean, low, high = (round(float(value), 12) for value in (mean_of_means(*collections), low, high))
    return _PooledGain(mean, low, high, randomisation_p(weighted))


def _as_extreme(flips: np.ndarray, gained: np.ndarray) -> int:
    """How many rows of flips (0 or 1) [patterns, n] give a sum at least as far from 0 as the observed sum."""
    total = gained.sum()
    sums = total - 2 * (flips.astype(np.float64) @ gained)
    # Sums that are mathematically equal must count as equal, in spite of rounding.
    slack = 1e-12 * np.abs(gained).sum()
    return int((np.abs(sums) >= abs(total) - slack).sum())


def t_p(gained: np.ndarray) -> float:
    """The two-sided p value of the paired t test on differences, float64 [queries].

    It is 1 for fewer than two differences, or if all are 0.
    """
    if gained.size < 2 or not gained.any():
        return 1.0
    from scipy import stats

    # If all differences are equal, t is infinite (a division by 0) and p is the smallest number above 0.
    with np.errstate(all="ignore"):
        mean, error = gained.mean(), gained.std(ddof=1) / math.sqrt(gained.size)
        p = 2 * stats.t.sf(abs(mean / error), gained.size - 1)
    return max(float(p), float(np.finfo(np.float64).tiny))


TESTS: Mapping[str, Callable[[np.ndarray], float]] = MappingProxyType({"randomisation": randomisation_p, "t": t_p})
TITLES: Mapping[str, str] = MappingProxyType({"randomisation": "paired randomisation test", "t": "paired t test"})


class BaselineComparison(NamedTuple):
    """One run compared with the baseline on one measure.

    Attributes:
        run: the run's name.
        measure: the measure's name.
        difference: the run's mean minus the baseline's.
        outcomes: queries won, tied and lost.
        p: the p value of the paired test.
        adjusted: Holm's p value over all comparisons made together.
    """

    run: str
    measure: str
    difference: float
    outcomes: _Outcomes
    p: float
    adjusted: float


def compare_with_baseline(
    baseline: MeasuredRun, others: Sequence[MeasuredRun], *, test: str = "randomisation"
) -> list[BaselineComparison]:
    """Compare runs with a baseline on every measure.

    Args:
        baseline: the run to compare with.
        others: the other runs, measured on the same queries.
        test: `randomisation` or `t`.

    Returns:
        A comparison per run and measure, ordered by run, then by measure.
    """
    pairs = [(run, measure) for run in others for measure in baseline.values]
    differences = [gains(run.values[measure], baseline.values[measure]) for run, measure in pairs]
    p_values = [TESTS[test](gained) for gained in differences]
    return [
        BaselineComparison(
            run.name, measure, run.means[measure] - baseline.means[measure], outcomes(gained), p, adjusted
        )
        for (run, measure), gained, p, adjusted in zip(pairs, differences, p_values, holm(p_values), strict=True)
    ]
