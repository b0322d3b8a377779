import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.core.calibration import moments, scale_of_all, scale_of_each


def drawn(seed, n, k=10, a=25.0, noise=2.0):
    """Similarities, labels and mask of n queries, with labels that rise by `a` per unit of similarity."""
    random = np.random.default_rng(seed)
    z = random.uniform(0.3, 0.8, size=(n, k))
    return z, a * z + 3 * random.normal(size=(n, 1)) + noise * random.normal(size=(n, k)), np.ones((n, k), dtype=bool)


def test_the_scale_of_a_collection_is_the_slope_within_queries():
    assert scale_of_all(moments(*drawn(0, 64))) == pytest.approx(25, rel=0.1)


def test_the_scale_of_one_query_by_hand():
    # z and s are proportional, so the correlation is 1 with a weight of 2 candidates against 0.4 with a weight of 20.
    z, s = np.array([[1.0, 3.0]]), np.array([[10.0, 14.0]])
    expected = (2 * 1 + 20 * 0.4) / 22 * 2.0
    assert scale_of_each(moments(z, s, z > 0)) == pytest.approx([expected])


@given(st.integers(0, 1000), st.floats(0.01, 100), st.floats(0.01, 100))
def test_it_follows_the_units_of_similarities_and_labels(seed, stretch, worth):
    z, s, mask = drawn(seed, 5)
    plain, other = moments(z, s, mask), moments(stretch * z, worth * s + 7, mask)
    assert scale_of_each(other) == pytest.approx(scale_of_each(plain) * worth / stretch)
    assert scale_of_all(other) == pytest.approx(scale_of_all(plain) * worth / stretch)


@given(st.integers(0, 1000))
def test_a_querys_scale_does_not_depend_on_the_other_queries(seed):
    z, s, mask = drawn(seed, 6)
    together = scale_of_each(moments(z, s, mask))
    alone = [scale_of_each(moments(z[i : i + 1], s[i : i + 1], mask[i : i + 1]))[0] for i in range(6)]
    assert together.tolist() == alone


def test_absent_candidates_do_not_count():
    z, s, mask = drawn(2, 4)
    mask[:, 7:] = False
    few = scale_of_each(moments(z[:, :7], s[:, :7], mask[:, :7]))
    padded = scale_of_each(moments(np.where(mask, z, -np.inf), np.where(mask, s, np.nan), mask))
    assert padded == pytest.approx(few)


def test_a_reranker_that_contradicts_the_retriever_leaves_it_some_weight():
    z, s, mask = drawn(3, 64)
    assert scale_of_all(moments(z, -s, mask)) > 0
    assert (scale_of_each(moments(z, -s, mask)) > 0).all()


def test_similarities_stay_as_they_are_where_nothing_can_be_found():
    one = np.ones((1, 1))
    assert scale_of_each(moments(one, one, one > 0)).tolist() == [1.0]
    assert scale_of_each(moments(np.ones((1, 5)), np.arange(5.0)[None], np.ones((1, 5), dtype=bool))).tolist() == [1.0]
    assert scale_of_each(moments(one, one, one < 0)).tolist() == [1.0]


@pytest.mark.parametrize("value", [0.1, 0.7, -11.3, 1 / 3])
def test_equal_values_are_equal_whatever_rounding_makes_of_their_mean(value):
    equal, others, mask = np.full((1, 3), value), np.array([[0.9, 0.7, 0.5]]), np.ones((1, 3), dtype=bool)
    nearly = equal * (1 + 1e-8 * np.arange(3))
    for same in (equal, nearly):
        assert scale_of_each(moments(same, others, mask)).tolist() == [1.0]
        assert scale_of_each(moments(others, same, mask)).tolist() == [1.0]
