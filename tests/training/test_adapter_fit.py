"""The convex problem behind an adapter: its gradient, its minimum, and what it does with labels that say nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize
from toy_collection import unit

from tour_pyserini.core.candidates import Hits
from tour_pyserini.encoders.query_adapter import corrected
from tour_pyserini.training import adapter_fit
from tour_pyserini.training.adapter import (
    LabelledQueries,
    choose,
    cross_entropy,
    fit_matrices,
    label_spread,
    label_targets,
    low_rank,
)

VECTORS = ("queries", "passages", "background_vectors")


def labelled(seed=0, *, queries=40, passages=30, labels=6, dimension=5, score=None):
    """Queries with labels of passages near them, some with fewer than the others; `score(q, p)` gives the labels."""
    random = np.random.default_rng(seed)
    vectors, corpus = unit(random, queries, dimension), unit(random, passages, dimension)
    candidates = np.argsort(-vectors @ corpus.T, axis=1)[:, :labels]  # near the query, as labelled passages are
    values = random.normal(size=(queries, labels))
    if score is not None:
        values = np.array([[score(vectors[i], corpus[j]) for j in row] for i, row in enumerate(candidates)])
    missing = np.arange(labels) >= random.integers(2, labels + 1, size=(queries, 1))
    labels = np.where(missing, np.nan, values)
    background = np.arange(0, passages, 3)
    positions = np.arange(passages)
    candidates = np.where(missing, -1, candidates)
    return LabelledQueries(vectors, corpus, positions, candidates, labels, background, corpus[background])


def targets_of(data, sharpness=1.0):
    return label_targets(data.labels, spread=label_spread(data.labels), sharpness=sharpness)


def test_spread_and_targets_by_hand():
    labels = np.array([[1.0, 3.0, np.nan], [0.0, 0.0, 6.0]])
    # Around the means 2 and 2: 1, 1, 4, 4, 16; their mean is 5.2.
    assert label_spread(labels) == pytest.approx(np.sqrt(5.2))
    targets = label_targets(np.array([[0.0, np.log(3.0), np.nan]]), spread=1.0, sharpness=1.0)
    assert targets == pytest.approx(np.array([[0.25, 0.75, 0.0]]))
    assert label_targets(np.array([[0.0, 2.0 * np.log(3.0)]]), spread=4.0, sharpness=2.0)[0] == pytest.approx(
        [0.25, 0.75]
    )


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 100), st.floats(-1000, 1000), st.integers(0, 9))
def test_targets_do_not_depend_on_the_unit_of_labels(factor, shift, seed):
    data = labelled(seed)
    moved = factor * data.labels + shift
    targets = label_targets(moved, spread=label_spread(moved), sharpness=2.0)
    assert targets == pytest.approx(targets_of(data, 2.0), abs=1e-6)
    assert targets.sum(axis=1) == pytest.approx(1.0)


def by_hand(background):
    passages = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    chosen = np.array(background, dtype=int)
    return LabelledQueries(
        np.array([[1.0, 0.0]]),
        *(passages[:2], np.arange(2), np.array([[0, 1]]), np.zeros((1, 2))),
        *(chosen, passages[chosen]),
    )


def test_loss_by_hand():
    targets = np.array([[0.25, 0.75]])
    matrix = np.array([[0.0, 0.0], [np.log(3.0), 0.0]])
    # Logits: 0 * 1 + 0 and 0 + ln 3, so the softmax is the target, and the loss is its entropy.
    loss, by_scale, by_matrix = cross_entropy(by_hand([]), targets, 0.0, matrix)
    assert loss == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    assert by_scale == pytest.approx(0.0) and by_matrix == pytest.approx(np.zeros((2, 2)))
    loss, by_scale, by_matrix = cross_entropy(by_hand([]), targets, 0.0, np.zeros((2, 2)))
    assert loss == pytest.approx(np.log(2.0))
    # Residuals 0.5 - 0.25 on the first passage, 0.5 - 0.75 on the second; the query is [1, 0].
    assert by_scale == pytest.approx(0.25) and by_matrix == pytest.approx(np.array([[0.25, 0.0], [-0.25, 0.0]]))


def test_the_background_by_hand():
    targets = np.array([[0.5, 0.5]])
    # Passage 2 is in the background; passage 1 is too, but it is labelled, so it counts once. All logits are 0.
    loss, by_scale, by_matrix = cross_entropy(by_hand([1, 2]), targets, 0.0, np.zeros((2, 2)))
    assert loss == pytest.approx(np.log(3.0))
    # Residuals 1/3 - 1/2 on passages 0 and 1, and 1/3 on passage 2, which is [-1, 0].
    assert by_scale == pytest.approx(-1 / 6 - 1 / 3)
    assert by_matrix == pytest.approx(np.array([[-1 / 2, 0.0], [-1 / 6, 0.0]]))


def test_gradient_agrees_with_finite_differences(monkeypatch):
    monkeypatch.setattr(adapter_fit, "BLOCK", 16)  # so that there are several blocks, the last one smaller
    data = labelled(3)
    vectors = {name: getattr(data, name).astype(float) for name in VECTORS}
    data = replace(data, **vectors)
    targets, size = targets_of(data), data.queries.shape[1]

    def value(x):
        return cross_entropy(data, targets, x[0], x[1:].reshape(size, size))[0]

    def gradient(x):
        _, by_scale, by_matrix = cross_entropy(data, targets, x[0], x[1:].reshape(size, size))
        return np.concatenate([[by_scale], by_matrix.ravel()])

    point = np.random.default_rng(4).normal(size=1 + size * size)
    assert check_grad(value, gradient, point) < 1e-6


def test_the_minimum_does_not_depend_on_the_path():
    data = labelled(5)
    targets = targets_of(data)
    (alone,) = fit_matrices(data, targets, [0.01])
    *_, after = fit_matrices(data, targets, [1.0, 0.1, 0.01])
    assert after == pytest.approx(alone, abs=0.02 * np.abs(alone).max())


def test_a_hidden_matrix_is_found():
    hidden = 2 * np.random.default_rng(6).normal(size=(5, 5))
    data = labelled(7, queries=600, passages=80, labels=8, score=lambda q, p: 3 * p @ (q + hidden @ q))
    (matrix,) = fit_matrices(data, targets_of(data), [1e-5])
    assert np.corrcoef(matrix.ravel(), hidden.ravel())[0, 1] > 0.95


def test_a_stronger_ridge_gives_a_smaller_matrix():
    data = labelled(8)
    norms = [np.linalg.norm(matrix) for matrix in fit_matrices(data, targets_of(data), [1.0, 0.1, 0.01, 0.001])]
    assert norms == sorted(norms) and norms[0] < 0.1


def test_with_vectors_of_length_1_the_minimum_is_that_of_the_loss_as_it_is_written():
    data = labelled(9)
    targets, size = targets_of(data), data.queries.shape[1]

    def objective(x):
        matrix = x[1:].reshape(size, size)
        loss, by_scale, by_matrix = cross_entropy(data, targets, x[0], matrix)
        return loss + 0.005 * (matrix**2).sum(), np.concatenate([[by_scale], (by_matrix + 0.01 * matrix).ravel()])

    x = minimize(objective, np.concatenate([[1.0], np.zeros(size * size)]), jac=True, method="BFGS").x
    expected = x[1:].reshape(size, size) / x[0]
    (matrix,) = fit_matrices(data, targets, [0.01])
    assert matrix == pytest.approx(expected, abs=0.02 * np.abs(expected).max())


class Searched:
    """Searches passages by their similarities."""

    def __init__(self, passages):
        self.passages = passages

    def search(self, vectors, k):
        similarities = vectors @ self.passages.T
        ids = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
        return Hits(ids, np.take_along_axis(similarities, ids, axis=1))


@pytest.mark.parametrize(("of_queries", "of_passages"), [(0.1, 3), (3, 10), (10, 0.01), (1000, 10)])
def test_the_lengths_of_vectors_do_not_matter(of_queries, of_passages):
    hidden = np.random.default_rng(10).normal(size=(5, 5))
    noise = np.random.default_rng(11)
    data = labelled(12, queries=60, score=lambda q, p: 3 * p @ (q + hidden @ q) + noise.normal())
    vectors = {name: getattr(data, name).astype(float) for name in VECTORS}
    data = replace(data, **vectors)
    factors = zip(VECTORS, (of_queries, of_passages, of_passages), strict=True)
    longer = replace(data, **{name: factor * vectors[name] for name, factor in factors})
    folds = np.arange(60) % 3
    choice, same = (choose(each, folds, Searched(each.passages)) for each in (data, longer))
    assert (same.ridge, same.rank) == (choice.ridge, choice.rank)
    assert (same.before, same.gain) == pytest.approx((choice.before, choice.gain))
    ridges, targets = [1e-2, 1e-3, 1e-4], targets_of(data)
    for matrix, other in zip(*(fit_matrices(each, targets, ridges) for each in (data, longer)), strict=True):
        directions = corrected(data.queries, *low_rank(matrix, 3))
        assert corrected(longer.queries, *low_rank(other, 3)) / of_queries == pytest.approx(directions, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(1, 6))
def test_low_rank_is_the_best_of_its_rank(seed, rank):
    matrix = np.random.default_rng(seed).normal(size=(6, 6))
    left, right = low_rank(matrix, rank)
    assert left.shape == right.shape == (6, rank)
    left_out = np.linalg.svd(matrix, compute_uv=False)[rank:]
    assert np.linalg.norm(matrix - left @ right.T) == pytest.approx(np.linalg.norm(left_out), abs=1e-9)
