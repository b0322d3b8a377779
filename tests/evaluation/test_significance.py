import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.paired_tests import holm, t_p


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [2, 5, 300])
def test_t_is_scipys(seed, size):
    random = np.random.default_rng(seed)
    one, other = random.random(size), random.random(size)
    assert t_p(one - other) == pytest.approx(stats.ttest_rel(one, other).pvalue, rel=1e-9)


@pytest.mark.parametrize("gained", [[], [0.5], [0.0, 0.0, 0.0]])
def test_t_without_evidence(gained):
    assert t_p(np.array(gained)) == 1.0


def test_t_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)  # which makes its import fail
    with pytest.raises(TourError, match=r"^the t test needs scipy; run: pip install scipy$"):
        t_p(np.array([0.1, 0.3]))


@given(st.lists(st.floats(-1, 1, allow_subnormal=False), max_size=20))
def test_t_is_a_chance_that_ignores_the_sign(gained):
    gained = np.array(gained)
    assert 0 < t_p(gained) <= 1
    assert t_p(gained) == t_p(-gained)


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # 3 x 0.01; 2 x 0.03; 1 x 0.04 is raised to the one before
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
    ],
)
def test_holm_by_hand(raw, adjusted):
    assert holm(raw) == pytest.approx(adjusted)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_only_raises(raw):
    adjusted = holm(raw)
    assert all(before <= after <= 1 for before, after in zip(raw, adjusted, strict=True))
    ordered = [after for _, after in sorted(zip(raw, adjusted, strict=True))]
    assert ordered == sorted(ordered)
    assert not raw or min(adjusted) == min(1, len(raw) * min(raw))
