import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tour_pyserini.evaluation import paired_tests
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import TESTS, compare_with_baseline, gains, outcomes, pooled_gain, t_p

randomisation_p = TESTS["randomisation"]


@pytest.mark.parametrize(
    ("gained", "p"),
    [
        ([], 1.0),
        ([0, 0, 0], 1.0),
        ([1], 1.0),
        ([1, 1, 1, 0, 0], 2 / 8),  # zeros have no sign
        ([1, -1], 1.0),
        ([3, -1], 1.0),  # 2, -2, 4, -4: all at least as far from 0 as 2
        ([1, 2, 3, -1], 6 / 16),  # 7 in 2 patterns, 5 in 4
        ([0.1, 0.2, -0.3], 1.0),  # exactly 0, but 5e-17 in floating point
        ([1] * 12, 2 / 4096),
    ],
)
def test_randomisation_p_by_hand(gained, p):
    assert randomisation_p(np.array(gained, dtype=float)) == p


@given(st.lists(st.integers(-10, 10), max_size=9))
def test_enumeration_is_exact(whole):
    """The oracle counts in whole numbers, where nothing is rounded."""
    patterns = itertools.product((1, -1), repeat=len(whole))
    sums = [abs(sum(s * v for s, v in zip(signs, whole, strict=True))) for signs in patterns]
    expected = sum(each >= abs(sum(whole)) for each in sums) / len(sums)
    assert randomisation_p(np.array(whole) / 10) == expected


def test_more_than_twelve_gains_are_sampled_with_a_fixed_seed(monkeypatch):
    assert randomisation_p(np.ones(13)) == randomisation_p(np.ones(13)) != 2 / 8192
    assert randomisation_p(np.ones(500)) == 1 / 100_001  # the observed pattern itself counts
    few = np.random.default_rng(0).normal(0.3, 1, size=12)
    exact = randomisation_p(few)
    monkeypatch.setattr(paired_tests, "ENUMERATED_UP_TO", 0)
    assert randomisation_p(few) == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 100_000) + 1e-5)


def test_the_t_test_gives_no_evidence_of_no_difference():
    assert t_p(np.zeros(5)) == t_p(np.ones(1)) == t_p(np.ones(0)) == 1
    one, other = np.random.default_rng(1).random((2, 5))
    assert t_p(one - other) == pytest.approx(stats.ttest_rel(one, other).pvalue)


def test_gains_and_outcomes_by_hand():
    gained = gains(np.array([0.5, 0.3, 0.2, 0.1 + 0.2]), np.array([0.4, 0.4, 0.2 + 9e-10, 0.3]))
    assert gained.tolist() == [pytest.approx(0.1), pytest.approx(-0.1), 0, 0]
    assert outcomes(gained) == (1, 2, 1)


def test_collections_count_the_same_however_many_queries_they_have():
    random = np.random.default_rng(5)
    one, two = random.normal(0.1, 0.2, 400), random.normal(-0.05, 0.2, 50)
    gain = pooled_gain([one, two])
    assert gain.mean == pytest.approx((one.mean() + two.mean()) / 2)
    error = np.sqrt(one.var() / 400 + two.var() / 50) / 2  # of the mean of two means
    assert (gain.mean - gain.low, gain.high - gain.mean) == pytest.approx((1.96 * error, 1.96 * error), rel=0.12)
    assert pooled_gain([one, two]) == gain
    assert (gain.p < 0.05) == (gain.low > 0)
    gained = np.array([0.3, -0.1, 0.2, 0.05, 0.0])
    assert pooled_gain([gained]).p == randomisation_p(gained)
    assert pooled_gain([np.zeros(4), np.zeros(3)]) == (0, 0, 0, 1)
    alone = pooled_gain([np.array([0.5]), np.array([0.1, 0.2])])
    assert math.isnan(alone.low) and alone.mean == pytest.approx(0.325), "one query has no interval"


def run(name, **values):
    arrays = {measure: np.array(each, dtype=float) for measure, each in values.items()}
    means = {measure: each.mean() for measure, each in arrays.items()}
    return MeasuredRun(name, Path(name), arrays, means, np.ones(4, dtype=bool), {})


def test_comparisons_with_a_baseline_by_hand():
    base = run("base", RR=[0, 0, 0, 1], P=[0.5, 0.5, 0.5, 0.5])
    one = run("one", RR=[1, 1, 1, 1], P=[0.5, 0.5, 0.5, 0.5])
    two = run("two", RR=[0, 0, 0, 0], P=[1, 1, 1, 0])
    found = compare_with_baseline(base, [one, two])
    assert [(each.run, each.measure) for each in found] == [("one", "RR"), ("one", "P"), ("two", "RR"), ("two", "P")]
    assert [each.difference for each in found] == [0.75, 0, -0.25, 0.25]
    assert [tuple(each.outcomes) for each in found] == [(3, 1, 0), (0, 4, 0), (0, 3, 1), (3, 0, 1)]
    assert [each.p for each in found] == [0.25, 1, 1, 10 / 16]
    assert [each.adjusted for each in found] == [1, 1, 1, 1]  # 4 x 0.25, and never above 1
