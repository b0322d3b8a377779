"""The convex problem behind an adapter: its gradient, its minimum, and what is chosen by held-out queries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize
from toy_collection import unit

from tour_pyserini.encoders.query_adapter import corrected
from tour_pyserini.stores.store import as_store
from tour_pyserini.training import adapter
from tour_pyserini.training.adapter import LabelledQueries, low_rank


def labelled(seed=0, *, queries=40, passages=30, labels=6, dimension=5, score=None):
    """Queries with labels of passages near them, some with fewer than the others; `score(q, p)` gives the labels."""
    random = np.random.default_rng(seed)
    vectors, corpus = (unit(random, count, dimension).astype(float) for count in (queries, passages))
    candidates = np.argsort(-vectors @ corpus.T, axis=1)[:, :labels]  # near the query, as labelled passages are
    values = random.normal(size=(queries, labels))
    if score is not None:
        values = np.array([[score(vectors[i], corpus[j]) for j in row] for i, row in enumerate(candidates)])
    missing = np.arange(labels) >= random.integers(2, labels + 1, size=(queries, 1))
    labels, candidates = np.where(missing, np.nan, values), np.where(missing, -1, candidates)
    background = np.arange(0, passages, 3)
    return LabelledQueries(vectors, corpus, np.arange(passages), candidates, labels, background, corpus[background])


def small(labels, background=()):
    """One query [1, 0] and passages [1, 0], [0, 1], [-1, 0], of which the first two are labelled."""
    passages, chosen = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array(background, dtype=int)
    places = (np.arange(2), np.array([[0, 1]]), np.array([labels]))
    return LabelledQueries(np.array([[1.0, 0.0]]), passages[:2], *places, chosen, passages[chosen])


def test_targets_by_hand():
    # Around the means 2 and 2: 1, 1, 4, 4, 16; their mean is 5.2, and the spread its root.
    labels = np.array([[1.0, 3.0, np.nan], [0.0, 0.0, 6.0]])
    powers = np.exp(2 / np.sqrt(5.2) * np.array([[1.0, 3.0, -np.inf], [0.0, 0.0, 6.0]]))
    assert replace(labelled(), labels=labels).targets() == pytest.approx(powers / powers.sum(axis=1, keepdims=True))


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 100), st.floats(-1000, 1000), st.integers(0, 9))
def test_targets_do_not_depend_on_the_unit_of_labels(factor, shift, seed):
    data = labelled(seed)
    other = replace(data, labels=factor * data.labels + shift)
    assert other.targets() == pytest.approx(data.targets(), abs=1e-6)


def test_loss_and_background_by_hand():
    targets, zero = np.array([[0.25, 0.75]]), np.zeros((2, 2))
    # Logits: 0 * 1 + 0 and 0 + ln 3, so the softmax is the target, and the loss is its entropy.
    loss, by_scale, by_matrix = small([0, 0]).cross_entropy(targets, 0.0, np.array([[0, 0], [np.log(3.0), 0]]))
    assert loss == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    assert by_scale == pytest.approx(0.0) and by_matrix == pytest.approx(zero)
    # Residuals 0.5 - 0.25 on the first passage, 0.5 - 0.75 on the second; the query is [1, 0].
    loss, by_scale, by_matrix = small([0, 0]).cross_entropy(targets, 0.0, zero)
    assert (loss, by_scale) == pytest.approx((np.log(2.0), 0.25))
    assert by_matrix == pytest.approx(np.array([[0.25, 0.0], [-0.25, 0.0]]))
    # Passage 2 is in the background; passage 1 is too, but it is labelled, so it counts once. All logits are 0.
    loss, by_scale, by_matrix = small([0, 0], [1, 2]).cross_entropy(np.array([[0.5, 0.5]]), 0.0, zero)
    # Residuals 1/3 - 1/2 on passages 0 and 1, and 1/3 on passage 2, which is [-1, 0].
    assert (loss, by_scale) == pytest.approx((np.log(3.0), -1 / 6 - 1 / 3))
    assert by_matrix == pytest.approx(np.array([[-1 / 2, 0.0], [-1 / 6, 0.0]]))


def test_gradient_and_minimum_agree_with_plain_optimisation(monkeypatch):
    monkeypatch.setattr(adapter, "BLOCK", 16)  # so that there are several blocks, the last one smaller
    data = labelled(9)
    targets, size = data.targets(), 5

    def objective(x, ridge=0.01):
        matrix = x[1:].reshape(size, size)
        loss, by_scale, by_matrix = data.cross_entropy(targets, x[0], matrix)
        gradient = np.concatenate([[by_scale], (by_matrix + ridge * matrix).ravel()])
        return loss + ridge / 2 * (matrix**2).sum(), gradient

    point = np.random.default_rng(4).normal(size=1 + size * size)
    assert check_grad(lambda x: objective(x)[0], lambda x: objective(x)[1], point) < 1e-6
    # With vectors of length 1, the fit is the minimum of the loss as it is written, whatever was fitted before.
    x = minimize(objective, np.concatenate([[1.0], np.zeros(size * size)]), jac=True, method="BFGS").x
    expected = x[1:].reshape(size, size) / x[0]
    *stronger, after = data.fit(targets, [1.0, 0.1, 0.01])
    for matrix in (after, *data.fit(targets, [0.01])):
        assert matrix == pytest.approx(expected, abs=0.02 * np.abs(expected).max())
    norms = [np.linalg.norm(matrix) for matrix in (*stronger, after)]
    assert norms == sorted(norms) and norms[0] < 0.1


@pytest.mark.parametrize(("of_queries", "of_passages"), [(0.1, 3), (1000, 10)])
def test_the_lengths_of_vectors_do_not_matter(of_queries, of_passages):
    hidden, noise = np.random.default_rng(10).normal(size=(5, 5)), np.random.default_rng(11)
    data = labelled(12, queries=60, score=lambda q, p: 3 * p @ (q + hidden @ q) + noise.normal())
    longer = {name: of_passages * getattr(data, name) for name in ("passages", "background_vectors")}
    longer = replace(data, queries=of_queries * data.queries, **longer)
    folds, targets = np.arange(60) % 3, data.targets()
    choice, same = (each.choose(folds, as_store(each.passages)) for each in (data, longer))
    assert (same.ridge, same.rank) == (choice.ridge, choice.rank)
    assert (same.before, same.gain) == pytest.approx((choice.before, choice.gain), abs=5e-3)  # ranks may be tied
    for matrix, other in zip(*(each.fit(targets, [1e-2, 1e-4]) for each in (data, longer)), strict=True):
        directions = corrected(data.queries, *low_rank(matrix, 3))
        assert corrected(longer.queries, *low_rank(other, 3)) / of_queries == pytest.approx(directions, abs=1e-4)


def test_order_and_reciprocal_ranks_by_hand():
    data, targets = small([0.0, 2.0]), np.array([[0.25, 0.75]])
    quality = (0.25 + 0.75 / np.log2(3)) / (0.75 + 0.25 / np.log2(3))  # similarities 1 and 0
    assert data.order_quality(targets, data.queries) == pytest.approx(quality)
    assert data.order_quality(targets, np.array([[0.0, 1.0]])) == pytest.approx(1.0)
    corpus = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.0]])
    assert data.reciprocal_ranks(data.queries, as_store(corpus)) == pytest.approx([1 / 3])
    assert data.reciprocal_ranks(data.queries, as_store(corpus[:1])) == pytest.approx([0.0])
