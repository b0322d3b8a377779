import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tour_pyserini.core.distributions import log_softmax, marginal, nucleus, softmax

SCORES = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 8)), elements=st.floats(-30, 30))


def test_softmax_by_hand():
    assert softmax(np.log([[1.0, 2.0, 1.0]])) == pytest.approx(np.array([[0.25, 0.5, 0.25]]))


def test_softmax_survives_huge_and_missing_values():
    values = softmax(np.array([[1e4, 0.0, -np.inf], [-np.inf, -np.inf, -np.inf]]))
    assert values.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_log_softmax_keeps_what_a_clamp_would_lose():
    assert log_softmax(np.array([[0.0, -1000.0]]))[0, 1] == -1000.0


@pytest.mark.parametrize(
    ("p", "members"),
    [
        (0.5, [False, True, False]),
        (0.51, [True, True, False]),
        (0.76, [True, True, True]),
        (1.0, [True, True, True]),
    ],
)
def test_nucleus_by_hand(p, members):
    # softmax(s / 1) = 1/4, 1/2, 1/4: ties keep their order
    assert nucleus(np.log([[1.0, 2.0, 1.0]]), tau=1.0, p=p).tolist() == [members]


def test_nucleus_temperature():
    scores = np.array([[1.0, 0.0]])
    assert nucleus(scores, tau=0.1, p=0.9).tolist() == [[True, False]]
    assert nucleus(scores, tau=10.0, p=0.9).tolist() == [[True, True]]


def test_nucleus_never_takes_a_missing_candidate():
    assert nucleus(np.array([[0.0, -np.inf]]), tau=0.5, p=1.0).tolist() == [[True, False]]


@given(scores=SCORES, tau=st.floats(0.1, 5), p=st.floats(0.01, 1.0))
def test_nucleus_is_the_smallest_set_with_enough_mass(scores, tau, p):
    members = nucleus(scores, tau=tau, p=p)
    mass = softmax(scores / tau)
    for row, chosen in zip(mass, members, strict=True):
        assert row[chosen].sum() >= p - 1e-9
        smaller = np.sort(row)[::-1][: chosen.sum() - 1].sum()
        assert smaller < p + 1e-9
        if not chosen.all():
            assert row[chosen].min() >= row[~chosen].max()


@given(similarities=SCORES, data=st.data())
def test_marginal_is_p_restricted_and_normalised(similarities, data):
    members = data.draw(arrays(bool, similarities.shape))
    members[:, 0] = True
    target = marginal(similarities, members)
    expected = softmax(similarities) * members
    assert target == pytest.approx(expected / expected.sum(axis=1, keepdims=True))
