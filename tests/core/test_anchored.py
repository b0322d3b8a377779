"""The anchored methods in the loop: what they buy, when they stop, what they are in the limit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus, MemoryCorpusWithoutHits

from tour_pyserini.core.candidates import Candidates, Hits
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.distributions import nucleus
from tour_pyserini.core.methods import METHODS
from tour_pyserini.core.posterior import stiffness
from tour_pyserini.core.ranking import rank

KEEPING = [name for name, method in METHODS.items() if method.keeps_labels]


def random_corpus(seed=0, size=60, n=4, d=6, hits=60):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(size, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = random.normal(size=(n, d))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    taste = queries + 0.8 * random.normal(size=queries.shape)
    return MemoryCorpus(vectors, 8 * taste @ vectors.T + random.normal(size=(n, size)), hits), queries


@pytest.mark.parametrize("method", KEEPING)
@pytest.mark.parametrize("budget", [1, 7, 10, 25])
def test_a_budget_is_spent_on_new_candidates_and_never_exceeded(method, budget):
    corpus, queries = random_corpus()
    config = TourConfig(method=method, budget=budget, early_stopping=False)
    outcome = corpus.run(queries, config)
    assert outcome.ledger.bought == len(corpus.scored) == len(set(corpus.scored)) == budget * len(queries)
    assert outcome.ledger.requested == outcome.ledger.bought
    for row in range(len(queries)):
        assert sorted(rank(outcome, row, config, hits=60).ids.tolist()) == list(range(60))


def test_a_budget_bounds_the_papers_methods_too():
    corpus, queries = random_corpus()
    config = TourConfig.preset("paper-odqa-phrases").replace(budget=13, early_stopping=False)
    corpus.run(queries, config)
    bought = np.bincount([row for row, _ in corpus.scored])
    assert (bought <= 13).all() and bought.max() > 10


def test_an_infinite_anchor_is_mixed_reranking():
    """The labels then go to the first candidates of q_0, and with the same scale the list is that of the mix."""
    corpus, queries = random_corpus()
    scale = {"calibrate": "never", "similarity_scale": 7.0}
    anchored = TourConfig(anchor=np.inf, early_stopping=False, **scale)
    outcome = corpus.run(queries, anchored)
    assert outcome.queries == pytest.approx(queries)
    other, _ = random_corpus()
    mix = TourConfig(method="rerank", depth=30, score_weight=0.5, **scale)
    reranked = other.run(queries, mix)
    for row in range(len(queries)):
        top = corpus.scored
        assert {id_ for r, id_ in top if r == row} == {id_ for r, id_ in other.scored if r == row}
        ours, theirs = rank(outcome, row, anchored, hits=60), rank(reranked, row, mix, hits=60)
        labelled = {id_ for r, id_ in top if r == row}
        assert [id_ for id_ in ours.ids.tolist() if id_ in labelled] == theirs.ids.tolist()[:30]


def test_finds_what_the_reranker_likes_better_than_reranking_does():
    found = {}
    for config in (
        TourConfig(early_stopping=False),
        TourConfig(method="rerank", depth=30, score_weight=0.5, calibrate="always"),
    ):
        gains = []
        for seed in range(8):
            corpus, queries = random_corpus(seed, size=400, hits=400)
            outcome = corpus.run(queries, config)
            for row in range(len(queries)):
                best = set(np.argsort(-corpus.scores[row])[:10].tolist())
                gains.append(len(best & set(rank(outcome, row, config, hits=10).ids.tolist())))
        found[config.method] = np.mean(gains)
    assert found["anchored"] > found["rerank"] + 0.5


@given(seed=st.integers(0, 1000), stretch=st.floats(0.2, 20))
@settings(deadline=None, max_examples=15)
def test_unit_norm_and_longer_vectors_give_the_same_lists(seed, stretch):
    corpus, queries = random_corpus(seed)
    longer = MemoryCorpus(stretch * corpus.matrix, corpus.scores, 60)
    config = TourConfig()
    outcome, other = corpus.run(queries, config), longer.run(stretch * queries, config)
    for row in range(len(queries)):
        ours, theirs = rank(outcome, row, config, hits=60), rank(other, row, config, hits=60)
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.scores == pytest.approx(theirs.scores, rel=1e-6)


def test_easy_queries_stop_and_hard_ones_go_on():
    # Scores follow similarities. One query has its relevant passages first, and nothing below; for the other, what
    # comes next is as good as what came first.
    vectors = np.linspace(1, 0, 80)[:, None]
    steep, flat = 60 * (vectors[:, 0] - 0.97), 2 + 0.1 * vectors[:, 0]
    corpus = MemoryCorpus(vectors, np.stack([steep, flat]), 80)
    config = TourConfig(budget=50, calibrate="never", similarity_scale=1.0)
    outcome = corpus.run(np.ones((2, 1)), config)
    assert [len(outcome.ledger.labelled(row)[0]) for row in (0, 1)] == [10, 50]
    never = MemoryCorpus(vectors, np.stack([steep, flat]), 80).run(np.ones((2, 1)), config.replace(least_gain=0))
    assert never.ledger.bought == 100


def test_an_update_that_predicts_labels_worse_is_taken_back():
    # The vectors say nothing of the scores: leaving a label out shows it.
    random = np.random.default_rng(5)
    vectors = random.normal(size=(30, 40))
    candidates = Candidates(
        np.arange(30)[None], vectors[None], vectors[None] @ np.ones(40), random.normal(size=(1, 30))
    )
    start = np.full((1, 40), 0.1)
    rule = TourConfig(anchor=0.001).new_method(start)
    assert rule.update(np.zeros(1, dtype=np.int64), start, candidates, rule.target(candidates), 0) == pytest.approx(
        start
    )


@pytest.mark.parametrize("method", ["anchored-soft", "anchored-hard"])
@pytest.mark.parametrize("seed", range(4))
def test_newton_ends_where_the_gradient_vanishes(method, seed):
    random = np.random.default_rng(seed)
    vectors, start, scores = random.normal(size=(1, 6, 9)), random.normal(size=(1, 9)), random.normal(size=(1, 6))
    config = TourConfig(method=method, tau=0.7, anchor=2.0, **({"p": 0.6} if method == "anchored-hard" else {}))
    scale = 1.3
    candidates = Candidates(np.arange(6)[None], vectors, scale * vectors @ start[0], scores, scale)
    rule = config.new_method(start)
    solved = rule._fit(start, candidates).queries[0]
    c, s = torch.tensor(vectors[0]), torch.tensor(scores[0])
    q = torch.tensor(solved, requires_grad=True)
    log_p = torch.log_softmax(scale * c @ q / config.tau, dim=0)
    if method == "anchored-soft":
        loss = -(torch.softmax(s / config.tau, dim=0) * log_p).sum()
    else:
        loss = -torch.logsumexp(log_p[torch.tensor(nucleus(scores, tau=config.tau, p=config.p)[0])], dim=0)
    kappa = stiffness(vectors, candidates.mask, config.anchor)[0]
    held = kappa / (2 * 6 * config.tau**2) * ((scale * q - scale * torch.tensor(start[0])) ** 2).sum()
    (loss + held).backward()
    assert q.grad.abs().max() < 1e-5


def test_graph_goes_to_the_best_candidates_neighbours_and_back():
    searched = []

    class Watched(MemoryCorpus):
        def search(self, rows, queries):
            searched.append(queries.copy())
            return super().search(rows, queries)

    corpus, queries = random_corpus(n=1)
    watched = Watched(corpus.matrix, corpus.scores, 60)
    outcome = watched.run(queries, TourConfig.preset("graph").replace(iterations=4))
    first = sorted(watched.scored[:5], key=lambda pair: -corpus.scores[pair])[0][1]
    assert searched[1][0] == pytest.approx(corpus.matrix[first])
    assert searched[2] == pytest.approx(queries)
    assert outcome.queries == pytest.approx(queries)


@pytest.mark.parametrize("method", ["rocchio-rerank", "average-rerank"])
@pytest.mark.parametrize("budget", [0, 30])
def test_feedback_then_reranking_labels_the_last_retrieval_alone(method, budget):
    corpus, queries = random_corpus()
    config = TourConfig.preset(method).replace(budget=budget)
    outcome = corpus.run(queries, config)
    assert outcome.ledger.bought == 30 * len(queries)
    assert (outcome.queries != queries).any()
    for row in range(len(queries)):
        assert {id_ for r, id_ in corpus.scored if r == row} == set(outcome.hits.ids[row][:30].tolist())


@pytest.mark.parametrize("method", [*KEEPING, "rocchio-rerank", "average-rerank"])
def test_a_query_without_hits_changes_nothing_else(method):
    corpus, queries = random_corpus()
    config = TourConfig.preset(method) if method in ("refit", "graph") else TourConfig(method=method)
    config = config.replace(calibrate="never")
    empty = MemoryCorpusWithoutHits(corpus.matrix, corpus.scores, 60).run(queries, config)
    full = MemoryCorpus(corpus.matrix, corpus.scores, 60).run(queries, config)
    assert np.isfinite(empty.queries).all()
    assert empty.queries[1:] == pytest.approx(full.queries[1:])
    assert rank(empty, 0, config, hits=6).ids.tolist() == []


@pytest.mark.parametrize("method", [*KEEPING, "hard", "soft", "rerank", "rocchio", "rocchio-rerank"])
def test_nothing_is_found_for_anybody(method):
    corpus, queries = random_corpus()
    corpus.search = lambda rows, vectors: Hits(np.full((len(rows), 60), -1), np.full((len(rows), 60), -np.inf))
    outcome = corpus.run(queries, TourConfig(method=method))
    assert np.isfinite(outcome.queries).all()
    assert not corpus.scored
    assert rank(outcome, 0, TourConfig(method=method), hits=6).ids.tolist() == []


@pytest.mark.parametrize("method", ["anchored-soft", "anchored-hard"])
def test_an_infinite_anchor_keeps_the_query_for_every_kind_of_label(method):
    corpus, queries = random_corpus()
    assert corpus.run(queries, TourConfig(method=method, anchor=np.inf)).queries == pytest.approx(queries)
