import numpy as np
import pytest

from tour_pyserini.core.distributions import nucleus, softmax


def test_softmax_by_hand_and_with_huge_and_missing_values():
    assert softmax(np.log([1.0, 2.0, 1.0])) == pytest.approx([0.25, 0.5, 0.25])
    assert softmax(np.array([1e4, 0.0, -np.inf])).tolist() == [1.0, 0.0, 0.0]
    assert softmax(np.array([-np.inf, -np.inf])).tolist() == [0.0, 0.0]
    assert softmax(np.array([0.0, -700.0]))[1] == pytest.approx(np.exp(-700.0))  # a clamp would lose it


@pytest.mark.parametrize(
    ("scores", "tau", "p", "members"),
    [
        # softmax(s / 1) = 1/4, 1/2, 1/4: ties keep their order
        (np.log([1.0, 2.0, 1.0]), 1.0, 0.5, [False, True, False]),
        (np.log([1.0, 2.0, 1.0]), 1.0, 0.51, [True, True, False]),
        (np.log([1.0, 2.0, 1.0]), 1.0, 1.0, [True, True, True]),
        ([1.0, 0.0], 0.1, 0.9, [True, False]),
        ([1.0, 0.0], 10.0, 0.9, [True, True]),
        ([0.0, -np.inf], 0.5, 1.0, [True, False]),  # a missing candidate
    ],
)
def test_nucleus_by_hand(scores, tau, p, members):
    assert nucleus(np.array(scores), tau=tau, p=p).tolist() == members
