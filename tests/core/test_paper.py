"""The paper's methods against a plain oracle, autograd and PyTorch's SGD, and by hand."""

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.distributions import marginal, nucleus, softmax
from tour_pyserini.core.method import StopReason
from tour_pyserini.core.methods.paper import Candidates, Descent, gradient

configs = st.builds(
    TourConfig,
    method=st.sampled_from(["hard", "soft"]),
    depth=st.integers(1, 9),
    iterations=st.integers(0, 4),
    learning_rate=st.sampled_from([0.1, 0.5, 2.0]),
    momentum=st.sampled_from([0.0, 0.99]),
    weight_decay=st.sampled_from([0.0, 0.1]),
    tau=st.sampled_from([0.5, 2.0]),
    score_weight=st.sampled_from([0.0, 0.3, 1.0]),
    early_stopping=st.booleans(),
    similarity_scale=st.sampled_from([1.0, 5.0]),
    gradient_clip=st.sampled_from([float("inf"), 0.4]),
    final_list=st.sampled_from(["last", "union"]),
)


@given(config=configs, seed=st.integers(0, 10**6), size=st.integers(1, 12), hits=st.integers(1, 15))
@settings(deadline=None, max_examples=200)
def test_tasks_that_advance_together_equal_the_plain_loop(config, seed, size, hits):
    random = np.random.default_rng(seed)
    vectors, queries = random.normal(size=(size, 4)), random.normal(size=(3, 4))
    corpus = MemoryCorpus(vectors, 3 * random.normal(size=(3, size)))
    tasks = corpus.run(queries, config, hits=hits)
    for row, task in enumerate(tasks):
        score = lambda i, row=row: corpus.scores[row, i]  # noqa: E731
        q, order, fused, labels = oracle.tour(vectors, queries[row], score, config, hits)
        ranking = task.outcome.ranking.first(hits)
        assert task.outcome.vector == pytest.approx(q, abs=1e-9)
        assert ranking.ids.tolist() == order
        assert task.labels == pytest.approx(labels)
        by_id = dict(zip(ranking.ids.tolist(), ranking.scores, strict=True))
        assert all(by_id[id_] == pytest.approx(value) for id_, value in fused.items() if id_ in by_id)
        assert (np.diff(ranking.scores) <= 1e-9).all()
    assert len(corpus.labelled) == len(set(corpus.labelled)) == len(corpus.fetched)


def random_candidates(seed, k=7, d=5, scale=1.0):
    random = np.random.default_rng(seed)
    query, vectors = random.normal(size=d), random.normal(size=(k, d))
    return query, Candidates(np.arange(k), vectors, scale * vectors @ query, 3 * random.normal(size=k))


def target_of(method, candidates, *, p=0.5, tau=2.0):
    if method == "soft":
        return softmax(candidates.labels / tau)
    return marginal(candidates.similarities, nucleus(candidates.labels, tau=tau, p=p))


def loss(method, q, vectors, scores, *, p=0.5, tau=2.0):
    """Equations 8 and 11, as torch sees them."""
    log_p = torch.log_softmax(vectors @ q, dim=0)
    if method == "soft":
        labels = torch.softmax(scores / tau, dim=0)
        return -(labels * (log_p - labels.log())).sum()
    members = torch.tensor(nucleus(scores.numpy(), tau=tau, p=p))
    return -torch.logsumexp(log_p[members], dim=0)


@pytest.mark.parametrize("method", ["hard", "soft"])
@given(seed=st.integers(0, 10**6), k=st.integers(1, 20), p=st.floats(0.05, 1), tau=st.floats(0.2, 3))
@settings(deadline=None)
def test_gradient_equals_autograd(method, seed, k, p, tau):
    query, candidates = random_candidates(seed, k=k)
    q = torch.tensor(query, requires_grad=True)
    loss(method, q, torch.tensor(candidates.vectors), torch.tensor(candidates.labels), p=p, tau=tau).backward()
    assert gradient(candidates, target_of(method, candidates, p=p, tau=tau)) == pytest.approx(q.grad.numpy(), abs=1e-6)


def test_sgd_equals_pytorch():
    config = TourConfig("soft", iterations=3, learning_rate=0.7, momentum=0.99, weight_decay=0.1, gradient_clip=0.5)
    ours, candidates = random_candidates(8)
    vectors, scores = torch.tensor(candidates.vectors), torch.tensor(candidates.labels)
    q = torch.nn.Parameter(torch.tensor(ours))
    optimiser = torch.optim.SGD([q], lr=0.7, momentum=0.99, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda t: (3 - t) / 3)
    descent = Descent(config.settings)
    for t in range(3):
        optimiser.zero_grad()
        loss("soft", q, vectors, scores).backward()
        torch.nn.utils.clip_grad_norm_([q], 0.5)
        optimiser.step()
        schedule.step()
        candidates = candidates._replace(similarities=candidates.vectors @ ours)
        ours = descent.step(ours, candidates, target_of("soft", candidates), t)
    assert ours == pytest.approx(q.detach().numpy(), abs=1e-6)


def test_one_step_by_hand():
    # z = (2, 1); H = {1}; P = softmax; T = (0, 1): grad = (P0, P1 - 1)
    corpus = MemoryCorpus(np.eye(2), [[0.0, 10.0]])
    step = {"iterations": 1, "learning_rate": 0.5, "weight_decay": 0.0}
    config = TourConfig("hard", **step, similarity_scale=1.0, score_weight=1.0)
    (task,) = corpus.run(np.array([[2.0, 1.0]]), config)
    share = np.exp(2) / (np.exp(2) + np.exp(1))
    assert task.outcome.vector == pytest.approx([2 - 0.5 * share, 1 + 0.5 * share])
    assert task.outcome.ranking.ids.tolist() == [1, 0]
    assert task.outcome.stop is StopReason.ROUNDS


def test_rocchio_is_a_gradient_step_with_uniform_probabilities():
    # Similarities scaled by 0 make P uniform: beta = gamma = eta (k - k') / k, alpha = 1 - eta decay.
    vectors, query = np.random.default_rng(2).normal(size=(5, 3)), np.array([[1.0, 0.5, -0.2]])
    corpus = MemoryCorpus(vectors, np.zeros((1, 5)))
    step = {"depth": 5, "iterations": 1, "positives": 2}
    (top,) = corpus.run(query, TourConfig("top", learning_rate=0.5, weight_decay=0.1, similarity_scale=0.0, **step))
    weights = {"rocchio_alpha": 0.95, "rocchio_beta": 0.5 * 3 / 5, "rocchio_gamma": 0.5 * 3 / 5}
    (rocchio,) = corpus.run(query, TourConfig("rocchio", **weights, **step))
    assert top.outcome.vector == pytest.approx(rocchio.outcome.vector)


def test_interpolation_by_hand():
    corpus = MemoryCorpus(np.eye(3), [[0.0, 9.0, 0.0]])
    config = TourConfig("interpolation", iterations=1, interpolation_beta=0.5, tau=0.5)
    (task,) = corpus.run(np.array([[3.0, 2.0, 1.0]]), config)
    assert task.outcome.vector.tolist() == [3.0, 2.5, 1.0]


@pytest.mark.parametrize("method", ["hard", "soft", "interpolation"])
def test_a_query_whose_first_candidate_agrees_stops_at_once(method):
    corpus = MemoryCorpus(np.eye(3), [[9.0, 0.0, 0.0]])
    (task,) = corpus.run(np.array([[3.0, 2.0, 1.0]]), TourConfig(method, depth=2))
    assert task.outcome.stop is StopReason.AGREEMENT
    assert corpus.searched == [1] and task.outcome.vector.tolist() == [3.0, 2.0, 1.0]


def test_the_budget_ends_labels_but_not_rounds():
    # Two labels pay for the first round; in the second, the candidates that have a label already are used again.
    corpus = MemoryCorpus(np.eye(4), [[0.0, 1.0, 9.0, 9.0]])
    config = TourConfig("hard", depth=2, iterations=2, budget=2, learning_rate=1.0, similarity_scale=1.0, tau=0.5)
    (task,) = corpus.run(np.array([[1.0, 0.9, 0.8, 0.7]]), config)
    assert corpus.labelled == [(0, 0), (0, 1)]
    assert task.updates > 0 and task.outcome.ranking.ids[0] == 1


@pytest.mark.parametrize("method", ["hard", "soft", "top", "interpolation"])
@pytest.mark.parametrize("early_stopping", [True, False])
def test_a_late_query_ends_with_the_labels_it_got(method, early_stopping):
    corpus = MemoryCorpus(np.eye(4), np.zeros((1, 4)))
    config = TourConfig(method, depth=3, early_stopping=early_stopping, score_weight=1.0)
    (task,) = corpus.run(np.array([[3.0, 2.0, 1.0, 0.5]]), config, label=lambda tasks: [np.array([1.0, 5.0, np.nan])])
    assert task.outcome.stop is StopReason.DEADLINE
    assert task.outcome.ranking.ids.tolist() == [1, 0, 2, 3] and task.labels == {0: 1.0, 1: 5.0}
