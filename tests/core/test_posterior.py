"""The anchored query against a plain least-squares solver, and its limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.core.posterior import posterior, stiffness


def labelled_candidates(seed, n=3, m=8, d=5):
    random = np.random.default_rng(seed)
    mask = random.random((n, m)) < 0.8
    mask[:, :2] = True
    return random.normal(size=(n, d)), random.normal(size=(n, m, d)), 3 * random.normal(size=(n, m)), mask


def least_squares(start, vectors, scores, slope, kappa):
    """w and b of the ridge problem as one stacked least-squares system, with b free."""
    d = vectors.shape[1]
    rows = np.hstack([vectors, np.ones((len(vectors), 1))])
    held = np.hstack([np.sqrt(kappa) * np.eye(d), np.zeros((d, 1))])
    right = np.concatenate([scores, np.sqrt(kappa) * slope * start])
    solution = np.linalg.lstsq(np.vstack([rows, held]), right, rcond=None)[0]
    return solution[:d], solution[d]


@given(seed=st.integers(0, 10**6), slope=st.floats(0.5, 40), anchor=st.floats(0.05, 20))
@settings(deadline=None, max_examples=60)
def test_equals_a_plain_solver(seed, slope, anchor):
    start, vectors, scores, mask = labelled_candidates(seed)
    fit = posterior(start, vectors, np.where(mask, scores, -np.inf), mask, slope=slope, anchor=anchor)
    kappa = stiffness(vectors, mask, anchor)
    for row, there in enumerate(mask):
        c, s = vectors[row][there], scores[row][there]
        w, b = least_squares(start[row], c, s, slope, kappa[row])
        assert slope * fit.queries[row] == pytest.approx(w, abs=1e-6)
        assert fit.intercepts[row] == pytest.approx(b, abs=1e-6)
        # Each label predicted by a fit to the others, with the same stiffness.
        errors, plain = [], []
        for out in range(len(s)):
            rest = np.arange(len(s)) != out
            w, b = least_squares(start[row], c[rest], s[rest], slope, kappa[row])
            errors.append(s[out] - b - c[out] @ w)
            residuals = s - slope * c @ start[row]
            plain.append(residuals[out] - residuals[rest].mean())
        assert fit.spreads[row] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-5)
        assert fit.prior_spreads[row] == pytest.approx(np.sqrt(np.mean(np.square(plain))), rel=1e-6)


def test_by_hand():
    # c = +-1, s = +-1, q_0 = 0: least squares alone says 1, and kappa = 2 halves it: (1 + 1) / (2 + 2).
    vectors, scores, mask = np.array([[[1.0], [-1.0]]]), np.array([[1.0, -1.0]]), np.ones((1, 2), dtype=bool)
    fit = posterior(np.zeros((1, 1)), vectors, scores, mask, slope=1.0, anchor=2.0)
    assert fit.queries == pytest.approx(np.array([[0.5]]))
    assert fit.intercepts == pytest.approx(np.array([0.0]))


def test_an_infinite_anchor_keeps_the_query_and_none_follows_the_labels():
    start, vectors, scores, mask = labelled_candidates(1, m=4, d=9)
    kept = posterior(start, vectors, scores, mask, slope=7.0, anchor=np.inf)
    assert kept.queries == pytest.approx(start)
    assert kept.spreads == pytest.approx(kept.prior_spreads)
    loose = posterior(start, vectors, scores, mask, slope=7.0, anchor=1e-9)
    predicted = 7.0 * np.einsum("nmd,nd->nm", vectors, loose.queries) + loose.intercepts[:, None]
    assert predicted[mask] == pytest.approx(scores[mask], abs=1e-4)


@given(seed=st.integers(0, 10**6), stretch=st.floats(0.1, 50), worth=st.floats(0.1, 50))
@settings(deadline=None, max_examples=40)
def test_scales_of_encoder_and_reranker_do_not_matter(seed, stretch, worth):
    start, vectors, scores, mask = labelled_candidates(seed)
    plain = posterior(start, vectors, scores, mask, slope=5.0, anchor=3.0)
    other = posterior(
        stretch * start, stretch * vectors, worth * scores, mask, slope=5.0 * worth / stretch**2, anchor=3.0
    )
    assert other.queries == pytest.approx(stretch * plain.queries)
    assert other.spreads == pytest.approx(worth * plain.spreads)


def test_with_uniform_labels_of_two_kinds_it_is_rocchio():
    """One round, orthogonal candidates of equal length: alpha = 1 and each label's share of beta and gamma is equal."""
    k, positives, kappa, slope = 6, 2, 3.0, 10.0
    vectors = np.eye(k)[None]
    scores = np.where(np.arange(k) < positives, 1.0, 0.0)[None]
    start = np.zeros((1, k))
    fit = posterior(start, vectors, scores, np.ones((1, k), dtype=bool), slope=slope, anchor=kappa * k / (k - 1))
    first, others = vectors[0, :positives].mean(axis=0), vectors[0, positives:].mean(axis=0)
    beta = positives * (1 - positives / k) / (1 + kappa) / slope
    assert fit.queries[0] == pytest.approx(beta * first - beta * others)


def test_candidates_that_are_all_alike_say_nothing_of_direction():
    fit = posterior(
        np.array([[1.0, 0.0]]),
        np.ones((1, 3, 2)),
        np.array([[1.0, 2.0, 3.0]]),
        np.ones((1, 3), bool),
        slope=2.0,
        anchor=3.0,
    )
    assert np.isfinite(fit.queries).all()
    assert fit.queries[0] == pytest.approx([1.0, 0.0], abs=1e-6)


@given(seed=st.integers(0, 10**6), slope=st.floats(0.5, 40), anchor=st.floats(0.05, 20))
@settings(deadline=None, max_examples=30)
def test_offsets_are_part_of_the_prior_mean(seed, slope, anchor):
    """Labels s with offsets e say what labels s - a e say without."""
    start, vectors, scores, mask = labelled_candidates(seed)
    offsets = np.random.default_rng(seed + 1).normal(size=scores.shape)
    got = posterior(start, vectors, scores, mask, slope=slope, anchor=anchor, offsets=offsets)
    expected = posterior(start, vectors, scores - slope * offsets, mask, slope=slope, anchor=anchor)
    for one, other in zip(got, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-8)
