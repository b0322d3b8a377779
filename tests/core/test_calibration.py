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
    # Similarities around 0.65 have the prior slope 27, which counts for 30 candidates with a variance of 0.04 squared.
    z, s = np.array([[0.64, 0.66]]), np.array([[1.0, 4.0]])
    level = np.sqrt((0.64**2 + 0.66**2) / 2) / 0.65
    weight, prior = 30 * (0.04 * level) ** 2, 27 / level
    z_z, z_s = 2 * 0.01**2, 2 * 0.01 * 1.5
    expected = (weight * prior + z_s) / (weight + z_z)
    assert scale_of_each(moments(z, s, z > 0)) == pytest.approx([expected])
    assert 27 < expected < 30


@given(st.integers(0, 1000), st.floats(0.01, 100), st.floats(0.01, 100))
def test_it_follows_the_units_of_similarities_and_labels(seed, stretch, worth):
    z, s, mask = drawn(seed, 5)
    plain, other = moments(z, s, mask), moments(stretch * z, s + 7, mask)
    assert scale_of_each(other) == pytest.approx(scale_of_each(plain) / stretch)
    assert scale_of_all(moments(stretch * z, worth * s + 7, mask)) == pytest.approx(
        scale_of_all(plain) * worth / stretch
    )


@pytest.mark.parametrize("worth", [1e-3, 1e3])
def test_labels_that_are_no_logits_bring_their_own_unit(worth):
    z, s, mask = drawn(0, 5)
    plain, other = scale_of_each(moments(z, s, mask)), scale_of_each(moments(z, worth * s, mask))
    assert (other > 0.05 * worth * plain).all() and (other < 20 * worth * plain).all()


@pytest.mark.parametrize("labels", [[[2.0]], [[2.0, 2.0, 2.0]]])
def test_without_different_labels_the_prior_is_the_scale(labels):
    labels = np.array(labels)
    z = np.full(labels.shape, 0.65)
    assert scale_of_each(moments(z, labels, z > 0)) == pytest.approx([27.0])


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
    assert scale_of_each(moments(0 * one, one, one > 0)).tolist() == [1.0]
    assert scale_of_each(moments(one, one, one < 0)).tolist() == [1.0]
    assert scale_of_all(moments(one, one, one > 0)) == 1.0


@pytest.mark.parametrize("value", [0.1, 0.7, -11.3, 1 / 3])
def test_equal_values_are_equal_whatever_rounding_makes_of_their_mean(value):
    equal, others, mask = np.full((1, 3), value), np.array([[0.9, 0.7, 0.5]]), np.ones((1, 3), dtype=bool)
    nearly = equal * (1 + 1e-8 * np.arange(3))
    for same in (equal, nearly):
        assert (moments(same, others, mask).z_z, moments(others, same, mask).s_s) == (0, 0)
        assert scale_of_all(moments(same, others, mask)) == scale_of_all(moments(others, same, mask)) == 1.0
