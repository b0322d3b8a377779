"""The closed-form gradients against autograd, and SGD against PyTorch's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.core.candidates import Candidates
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.distributions import nucleus
from tour_pyserini.core.methods.paper import gradient


def random_candidates(seed, n=3, k=7, d=5, scale=1.0):
    random = np.random.default_rng(seed)
    query, vectors = random.normal(size=(n, d)), random.normal(size=(n, k, d))
    return query, Candidates(
        ids=np.tile(np.arange(k), (n, 1)),
        vectors=vectors,
        similarities=scale * np.einsum("nkd,nd->nk", vectors, query),
        labels=3 * random.normal(size=(n, k)),
    )


def loss(method, q, vectors, scores, config):
    """Equations 8 and 11, for one query, as torch sees them."""
    log_p = torch.log_softmax(vectors @ q, dim=0)
    if method == "soft":
        labels = torch.softmax(scores / config.tau, dim=0)
        return -(labels * (log_p - labels.log())).sum()
    members = torch.tensor(nucleus(scores.numpy()[None], tau=config.tau, p=config.p)[0])
    return -torch.logsumexp(log_p[members], dim=0)


@pytest.mark.parametrize("method", ["hard", "soft"])
@given(seed=st.integers(0, 10**6), k=st.integers(1, 20), p=st.floats(0.05, 1), tau=st.floats(0.2, 3))
@settings(deadline=None)
def test_gradient_equals_autograd(method, seed, k, p, tau):
    config = TourConfig(method=method, p=p, tau=tau)
    query, candidates = random_candidates(seed, k=k)
    ours = gradient(candidates, config.new_method(query).target(candidates))
    for row in range(len(query)):
        q = torch.tensor(query[row], requires_grad=True)
        loss(method, q, torch.tensor(candidates.vectors[row]), torch.tensor(candidates.labels[row]), config).backward()
        assert ours[row] == pytest.approx(q.grad.numpy(), abs=1e-6)


@pytest.mark.parametrize("method", ["hard", "soft"])
def test_gradient_equals_finite_differences(method):
    config = TourConfig(method=method)
    query, candidates = random_candidates(5, n=1)
    ours = gradient(candidates, config.new_method(query).target(candidates))[0]
    vectors, scores = torch.tensor(candidates.vectors[0]), torch.tensor(candidates.labels[0])
    for axis in range(query.shape[1]):
        step = np.eye(query.shape[1])[axis] * 1e-5
        ahead, behind = (
            float(loss(method, torch.tensor(query[0] + sign * step), vectors, scores, config)) for sign in (1, -1)
        )
        assert ours[axis] == pytest.approx((ahead - behind) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("method", ["hard", "soft"])
def test_gradient_is_largest_where_a_clamp_would_kill_it(method):
    # The pseudo-positive is e^-200 as probable as the first hit: its full vector remains in the gradient.
    vectors = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    candidates = Candidates(np.array([[0, 1]]), vectors, np.array([[200.0, 0.0]]), np.array([[0.0, 50.0]]))
    target = TourConfig(method=method).new_method(np.ones((1, 2))).target(candidates)
    assert gradient(candidates, target) == pytest.approx(np.array([[1.0, -1.0]]))


@pytest.mark.parametrize("method", ["hard", "soft"])
def test_scale_reads_as_both_encoders_multiplied_by_its_root(method):
    scale = 17.0
    query, candidates = random_candidates(3, scale=scale)
    root = np.sqrt(scale)
    stretched = Candidates(
        candidates.ids,
        root * candidates.vectors,
        np.einsum("nkd,nd->nk", root * candidates.vectors, root * query),
        candidates.labels,
    )
    config = TourConfig(method=method, iterations=2, momentum=0.9)
    rows = np.arange(len(query))
    plain, other = (
        rule.update(rows, rule.start, seen, rule.target(seen), 0)
        for rule, seen in (
            (config.new_method(query), candidates),
            (config.new_method(root * query), stretched),
        )
    )
    assert root * plain == pytest.approx(other)


def test_sgd_equals_pytorch():
    config = TourConfig(
        method="soft", iterations=3, learning_rate=0.7, momentum=0.99, weight_decay=0.1, gradient_clip=0.5
    )
    query, candidates = random_candidates(8, n=1)
    vectors, scores = torch.tensor(candidates.vectors[0]), torch.tensor(candidates.labels[0])
    q = torch.nn.Parameter(torch.tensor(query[0]))
    optimiser = torch.optim.SGD([q], lr=0.7, momentum=0.99, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda t: (3 - t) / 3)
    rule, ours = config.new_method(query), query
    for t in range(3):
        optimiser.zero_grad()
        loss("soft", q, vectors, scores, config).backward()
        torch.nn.utils.clip_grad_norm_([q], 0.5)
        optimiser.step()
        schedule.step()
        candidates = candidates._replace(similarities=np.einsum("nkd,nd->nk", candidates.vectors, ours))
        ours = rule.update(np.zeros(1, dtype=np.int64), ours, candidates, rule.target(candidates), t)
    assert ours[0] == pytest.approx(q.detach().numpy(), abs=1e-6)
