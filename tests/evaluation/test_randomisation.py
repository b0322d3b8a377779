import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.evaluation.paired_tests import enumerated_p, randomisation_p, sampled_p

tenths = st.lists(st.integers(-10, 10), max_size=9)
values = st.lists(st.floats(-1, 1, allow_subnormal=False), max_size=30)


@pytest.mark.parametrize(
    ("gained", "p"),
    [
        ([], 1.0),
        ([0, 0, 0], 1.0),
        ([1], 1.0),
        ([1, 1, 1], 2 / 8),
        ([1, 1, 1, 0, 0], 2 / 8),  # zeros have no sign
        ([1, -1], 1.0),
        ([3, -1], 1.0),  # 2, -2, 4, -4: all at least as far from 0 as 2
        ([1, 2, 3, -1], 6 / 16),  # 7 in 2 patterns, 5 in 4
        ([0.1, 0.2, -0.3], 1.0),  # 0 on paper, 5e-17 in the machine
        ([1] * 12, 2 / 4096),
    ],
)
def test_by_hand(gained, p):
    assert randomisation_p(np.array(gained, dtype=float)) == p


@given(tenths)
def test_enumeration_is_exact(whole):
    """The oracle counts in whole numbers, where nothing is rounded."""
    sums = [abs(sum(s * v for s, v in zip(signs, whole, strict=True))) for signs in _signs(len(whole))]
    expected = sum(each >= abs(sum(whole)) for each in sums) / len(sums)
    assert enumerated_p(np.array(whole) / 10) == expected


def _signs(count):
    return itertools.product((1, -1), repeat=count)


@settings(max_examples=40, deadline=None)
@given(values)
def test_a_chance_that_ignores_the_sign(gained):
    gained = np.array(gained)
    p = randomisation_p(gained)
    assert 0 < p <= 1
    assert p == randomisation_p(-gained)


@pytest.mark.parametrize("seed", range(5))
def test_sampling_agrees_with_enumeration(seed):
    gained = np.random.default_rng(seed).normal(0.3, 1, size=12)
    exact = enumerated_p(gained)
    assert sampled_p(gained) == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 100_000) + 1e-5)


def test_thirteen_are_sampled_and_always_alike():
    gained = np.ones(13)
    assert randomisation_p(gained) == sampled_p(gained) == sampled_p(gained)
    assert randomisation_p(gained) != enumerated_p(gained) == 2 / 8192
    assert sampled_p(np.ones(500)) == 1 / 100_001  # no sample is as extreme; the observed pattern itself counts


def test_memory_stays_bounded():
    gained = np.random.default_rng(0).normal(size=3000)
    tracemalloc.start()
    sampled_p(gained, samples=20_000)  # all at once would be 480 MB
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
