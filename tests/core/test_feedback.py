"""Rocchio, average and interpolation by hand, and TouR's hard labels as a generalisation of Rocchio."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.core.candidates import Candidates
from tour_pyserini.core.config import TourConfig


def step(config, query, vectors, scores=None):
    similarities = config.similarity_scale * np.einsum("nkd,nd->nk", vectors, query)
    ids = np.tile(np.arange(vectors.shape[1]), (len(query), 1))
    candidates = Candidates(ids, vectors, similarities, np.zeros(ids.shape) if scores is None else scores)
    rule = config.new_method(query)
    return rule.update(np.arange(len(query)), query, candidates, rule.target(candidates), 0)


def test_rocchio_by_hand():
    query = np.array([[1.0, 0.0]])
    vectors = np.array([[[0.0, 2.0], [0.0, 4.0], [2.0, 0.0]]])
    config = TourConfig(method="rocchio", positives=2, rocchio_alpha=0.5, rocchio_beta=0.1, rocchio_gamma=0.2)
    assert step(config, query, vectors) == pytest.approx(np.array([[0.5 - 0.4, 0.3]]))


def test_average_by_hand():
    query = np.array([[1.0, 2.0, 3.0]])
    assert step(TourConfig(method="average"), query, np.array([[[4.0, 5.0, 6.0]]])) == pytest.approx(
        np.array([[2.5, 3.5, 4.5]])
    )


def test_interpolation_by_hand():
    query, vectors = np.array([[1.0, 0.0]]), np.array([[[9.0, 9.0], [0.0, 2.0]]])
    config = TourConfig(method="interpolation", interpolation_beta=0.3)
    assert step(config, query, vectors, np.array([[0.0, 9.0]])) == pytest.approx(np.array([[1.0, 0.6]]))


@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(0.01, 2), st.floats(0, 0.5), st.data())
def test_hard_labels_generalise_rocchio(seed, k, eta, decay, data):
    """T = 1, P uniform (scale 0) and the first k' as positives: alpha = 1 - eta decay,
    beta = gamma = eta (k - k') / k."""
    positives = data.draw(st.integers(1, k))
    random = np.random.default_rng(seed)
    query, vectors = random.normal(size=(2, 6)), random.normal(size=(2, k, 6))
    # Scores that make the nucleus exactly the first k'.
    scores = np.where(np.arange(k) < positives, 0.0, -200.0) * np.ones((2, 1))
    hard = TourConfig(
        method="hard",
        iterations=1,
        learning_rate=eta,
        momentum=0.99,
        weight_decay=decay,
        similarity_scale=0,
        p=1.0,
    )
    weight = eta * (k - positives) / k
    rocchio = TourConfig(
        method="rocchio",
        positives=positives,
        rocchio_alpha=1 - eta * decay,
        rocchio_beta=weight,
        rocchio_gamma=weight,
    )
    top = hard.replace(method="top", positives=positives)
    expected = step(rocchio, query, vectors)
    assert step(hard.replace(p=0.9999999), query, vectors, scores) == pytest.approx(expected)
    assert step(top, query, vectors) == pytest.approx(expected)
