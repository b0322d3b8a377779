"""Paired tests of runs against a baseline: randomisation test, t test, Holm's correction, wins, ties and losses."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given.

    Rejecting those that are at most alpha keeps the probability of any false rejection at most alpha.

    Example:
        >>> _holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for smaller, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - smaller) * p_values[position]))
        adjusted[position] = highest
    return adjusted


def _randomisation_p(gained: np.ndarray) -> float:
    """The two-sided p value of a mean gain under random signs.

    All sign patterns are enumerated when at most 12 gains differ from 0. Otherwise 100,000 patterns are sampled, with
    a fixed seed. Gains of 0 have no sign to flip and change nothing.

    Args:
        gained: differences between two runs, float64 [queries].

    Returns:
        A value in (0, 1].

    Example:
        >>> _randomisation_p(np.array([0.1, 0.2, 0.3]))  # 2 of the 8 patterns are as extreme
        0.25
    """
    nonzero = gained[gained != 0]
    total, slack = abs(nonzero.sum()), 1e-12 * np.abs(nonzero).sum()  # equal sums count as equal, in spite of rounding
    # A row of flips has 1 where a sign is turned.
    sums = (nonzero.sum() - 2 * (flips.astype(np.float64) @ nonzero) for flips in _flips(nonzero.size))
    as_extreme = sum(int((np.abs(each) >= total - slack).sum()) for each in sums)
    if nonzero.size <= ENUMERATED_UP_TO:
        return as_extreme / (1 << nonzero.size)
    return (1 + as_extreme) / (1 + _SAMPLES)


def _flips(count: int) -> Iterator[np.ndarray]:
    """All 2^count patterns of 0 and 1 [patterns, count] if they are few, otherwise random ones, in parts."""
    if count <= ENUMERATED_UP_TO:
        yield np.arange(1 << count)[:, None] >> np.arange(count) & 1
        return
    random, left = np.random.default_rng(_SEED), _SAMPLES
    while left:
        rows = min(left, max(1, _SIGNS_AT_ONCE // count))
        packed = random.integers(0, 256, size=(rows, -(-count // 8)), dtype=np.uint8)
        yield np.unpackbits(packed, axis=1, count=count)
        left -= rows


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
    return _PooledGain(mean, low, high, _randomisation_p(weighted))


def t_p(gained: np.ndarray) -> float:
    """The two-sided p value of the paired t test on differences, float64 [queries].

    It is 1 for fewer than two differences, or if all are 0.
    """
    if gained.size < 2 or not gained.any():
        return 1.0
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if all differences are equal, t is infinite
        return float(stats.ttest_1samp(gained, 0.0).pvalue)


TESTS: Mapping[str, Callable[[np.ndarray], float]] = {"randomisation": _randomisation_p, "t": t_p}


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
        for (run, measure), gained, p, adjusted in zip(pairs, differences, p_values, _holm(p_values), strict=True)
    ]
