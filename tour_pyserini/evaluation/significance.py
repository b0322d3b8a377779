"""Paired tests by name."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.randomisation import randomisation_p


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
