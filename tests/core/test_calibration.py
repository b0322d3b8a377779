import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.core.calibration import ENOUGH, Calibration


def drawn(seed, n, k=10, a=25.0, noise=2.0):
    random = np.random.default_rng(seed)
    z = random.uniform(0.3, 0.8, size=(n, k))
    return z, a * z + 3 * random.normal(size=(n, 1)) + noise * random.normal(size=(n, k)), np.ones((n, k), dtype=bool)


def test_finds_the_slope_within_queries():
    calibration = Calibration()
    calibration.add(*drawn(0, ENOUGH))
    assert calibration.scale == pytest.approx(25, rel=0.1)


@given(st.integers(0, 1000), st.floats(0.01, 100), st.floats(0.01, 100))
def test_is_worth_what_the_scales_say(seed, stretch, worth):
    z, s, mask = drawn(seed, 5)
    plain, other = Calibration(), Calibration()
    plain.add(z, s, mask)
    other.add(stretch * z, worth * s + 7, mask)
    assert other.scale == pytest.approx(plain.scale * worth / stretch)


def test_does_not_depend_on_batches_and_stays_after_enough_queries():
    z, s, mask = drawn(1, 3 * ENOUGH)
    whole, parts = Calibration(), Calibration()
    whole.add(z, s, mask)
    for start in range(0, len(z), 7):
        parts.add(z[start : start + 7], s[start : start + 7], mask[start : start + 7])
    assert whole.queries == parts.queries == ENOUGH
    assert parts.scale == pytest.approx(whole.scale)


def test_absent_candidates_do_not_count():
    z, s, mask = drawn(2, 4)
    mask[:, 7:] = False
    few, padded = Calibration(), Calibration()
    few.add(z[:, :7], s[:, :7], mask[:, :7])
    padded.add(np.where(mask, z, -np.inf), np.where(mask, s, np.nan), mask)
    assert padded.scale == pytest.approx(few.scale)


def test_a_contrary_reranker_does_not_turn_the_retriever_round():
    calibration = Calibration()
    z, s, mask = drawn(3, ENOUGH)
    calibration.add(z, -s, mask)
    assert calibration.scale > 0


def test_without_differences_similarities_stay_as_they_are():
    assert Calibration().scale == 1.0
