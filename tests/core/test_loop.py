"""The batched loop against a plain one, what it may not do twice, and why queries stop."""

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus, MemoryCorpusWithoutHits

from tour_pyserini.core.candidates import Hits
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.loop import StopReason
from tour_pyserini.core.methods import METHODS
from tour_pyserini.core.ranking import rank

configs = st.builds(
    TourConfig,
    method=st.sampled_from(["hard", "soft"]),
    depth=st.integers(1, 9),
    iterations=st.integers(0, 4),
    learning_rate=st.sampled_from([0.1, 0.5, 2.0]),
    momentum=st.sampled_from([0.0, 0.99]),
    weight_decay=st.sampled_from([0.0, 0.1]),
    p=st.sampled_from([0.3, 0.5, 0.9]),
    tau=st.sampled_from([0.5, 2.0]),
    score_weight=st.sampled_from([0.0, 0.3, 1.0]),
    early_stopping=st.booleans(),
    similarity_scale=st.sampled_from([1.0, 5.0]),
    gradient_clip=st.sampled_from([float("inf"), 0.4]),
    final_list=st.sampled_from(["last", "union"]),
)


@given(
    config=configs,
    seed=st.integers(0, 10**6),
    size=st.integers(1, 12),
    hits=st.integers(1, 15),
    twins=st.booleans(),
)
@settings(deadline=None, max_examples=300)
def test_batched_loop_equals_the_plain_one(config, seed, size, hits, twins):
    random = np.random.default_rng(seed)
    vectors, queries = random.normal(size=(size, 4)), random.normal(size=(3, 4))
    if twins and size > 1:  # ties: the same vector twice, and equal scores
        vectors[1] = vectors[0]
    scores = np.round(3 * random.normal(size=(3, size)))
    corpus = MemoryCorpus(vectors, scores + np.arange(size) * 1e-7 * (not twins), max(config.depth, hits))
    outcome = corpus.run(queries, config)
    assert outcome.queries.dtype == np.float64
    bought = 0
    for row in range(3):
        q, order, fused, labels = oracle.tour(
            vectors, queries[row], lambda i, row=row: corpus.scores[row, i], config, hits
        )
        ranking = rank(outcome, row, config, hits=hits)
        assert outcome.queries[row] == pytest.approx(q, abs=1e-9)
        assert sorted(ranking.ids.tolist()) == sorted(order) or twins
        assert len(set(ranking.ids.tolist())) == len(order) == min(hits, size)
        by_id = dict(zip(ranking.ids.tolist(), ranking.scores, strict=True))
        for id_, value in fused.items():
            if id_ in by_id:
                assert by_id[id_] == pytest.approx(value)
        if not twins:
            assert ranking.ids.tolist() == order
        assert (np.diff(ranking.scores) <= 1e-9).all()
        bought += len(labels)
    assert outcome.ledger.bought == bought == len(corpus.scored) == len(set(corpus.scored))
    assert outcome.ledger.requested >= outcome.ledger.bought


def test_float32_stays_float32():
    corpus = MemoryCorpus(np.eye(3, dtype=np.float32), np.array([[0.0, 5.0, 1.0]]), 3)
    outcome = corpus.run(np.array([[3, 2, 1]], dtype=np.float32), TourConfig(method="hard", similarity_scale=1.0))
    assert outcome.queries.dtype == np.float32
    assert outcome.updates.tolist() == [1] or outcome.updates[0] > 0


def test_one_step_by_hand():
    # z = (2, 1); H = {1}; P = softmax; T = (0, 1): grad = (P0, P1 - 1)
    corpus = MemoryCorpus(np.eye(2), np.array([[0.0, 10.0]]), 2)
    config = TourConfig(
        method="hard", iterations=1, learning_rate=0.5, weight_decay=0.0, similarity_scale=1.0, score_weight=1.0
    )
    outcome = corpus.run(np.array([[2.0, 1.0]]), config)
    share = np.exp(2) / (np.exp(2) + np.exp(1))
    assert outcome.queries == pytest.approx(np.array([[2 - 0.5 * share, 1 + 0.5 * share]]))
    assert rank(outcome, 0, config, hits=2).ids.tolist() == [1, 0]


def test_stopped_queries_are_not_searched_again_and_nothing_is_paid_twice():
    # Query 0 agrees at once; query 1 does not.
    scores = np.array([[9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    corpus = MemoryCorpus(np.eye(3), scores, 3)
    queries = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    outcome = corpus.run(
        queries, TourConfig(method="hard", iterations=3, depth=2, learning_rate=0.1, similarity_scale=1.0)
    )
    assert corpus.searched[0] == [0, 1]
    assert all(rows == [1] for rows in corpus.searched[1:])
    assert outcome.updates[0] == 0
    assert outcome.queries[0].tolist() == queries[0].tolist()
    assert len(corpus.scored) == len(set(corpus.scored)) == outcome.ledger.bought
    assert len(corpus.fetched) == len(corpus.scored)


def test_dense_and_rocchio_never_label():
    def refuse(rows, ids):
        raise AssertionError("labelled")

    for method in ("dense", "rocchio", "average"):
        corpus = MemoryCorpus(np.eye(3), np.zeros((1, 3)), 3)
        corpus.score = refuse
        outcome = corpus.run(np.array([[3.0, 2.0, 1.0]]), TourConfig(method=method, iterations=2))
        assert rank(outcome, 0, TourConfig(method=method), hits=3).scores.tolist() == sorted(
            outcome.hits.similarities[0].tolist(), reverse=True
        )


def test_dense_and_rerank_fetch_no_vectors():
    for method in ("dense", "rerank"):
        corpus = MemoryCorpus(np.eye(3), np.array([[1.0, 2.0, 3.0]]), 3)
        outcome = corpus.run(np.array([[3.0, 2.0, 1.0]]), TourConfig.preset(method))
        assert not corpus.fetched
    assert rank(outcome, 0, TourConfig.preset("rerank"), hits=3).ids.tolist() == [2, 1, 0]


@pytest.mark.parametrize("method", ["hard", "soft", "top", "interpolation", "rocchio", "average", "rerank"])
def test_a_query_without_hits_changes_nothing_else(method):
    random = np.random.default_rng(0)
    vectors, queries, scores = (
        random.normal(size=(6, 4)),
        random.normal(size=(2, 4)),
        random.normal(size=(2, 6)),
    )
    config = TourConfig(method=method, depth=4)
    empty, full = (
        MemoryCorpusWithoutHits(vectors, scores, 6).run(queries, config),
        MemoryCorpus(vectors, scores, 6).run(queries, config),
    )
    assert np.isfinite(empty.queries).all()
    assert empty.queries[1] == pytest.approx(full.queries[1])
    assert rank(empty, 0, config, hits=6).ids.tolist() == []


def test_observer_sees_every_iteration():
    steps = []
    corpus = MemoryCorpus(np.eye(3), np.array([[0.0, 0.0, 9.0]]), 3)
    config = TourConfig(method="hard", iterations=2, learning_rate=0.3, similarity_scale=1.0, weight_decay=0.0)
    corpus.run(np.array([[30.0, 2.0, 1.0]]), config, observe=steps.append)
    assert [step.t for step in steps] == [0, 1, 2]
    assert [step.step_size for step in steps] == [0.3, 0.15, None]
    assert [step.stops for step in steps] == [[None], [None], ["rounds"]]


def test_soft_labels_stop_on_the_highest_score_or_as_published_on_the_nucleus():
    # softmax(s / 2) is 0.27, 0.45, 0.27: the first candidate is not the best, but in the nucleus of mass 0.6
    scores = 2 * np.log([[3.0, 5.0, 3.0]])
    queries = np.array([[3.0, 2.0, 1.0]])
    config = TourConfig(method="soft", tau=2.0, p=0.6, similarity_scale=1.0)
    assert MemoryCorpus(np.eye(3), scores, 3).run(queries, config).updates.tolist() != [0]
    assert MemoryCorpus(np.eye(3), scores, 3).run(queries, config.replace(stopping="nucleus")).updates.tolist() == [0]


def stops_of(corpus, queries, config):
    """The reason and the round in which each query stopped, checked to be given once and in its last round."""
    rounds, stops = [], {}
    corpus.run(queries, config, observe=rounds.append)
    for round_ in rounds:
        assert len(round_.stops) == len(round_.rows)
        for row, reason in zip(round_.rows.tolist(), round_.stops, strict=True):
            assert row not in stops  # a query that stopped takes part in no later round
            if reason is not None:
                stops[row] = (reason, round_.t)
    assert sorted(stops) == list(range(len(queries)))
    return [stops[row] for row in range(len(queries))]


QUERY = np.array([[3.0, 2.0, 1.0]])


def nothing_found(rows, queries):
    return Hits(np.full((len(rows), 3), -1), np.full((len(rows), 3), -np.inf))


@pytest.mark.parametrize("method", ["hard", "soft", "interpolation"])
def test_a_query_stops_by_agreement_when_its_first_candidate_has_the_best_label(method):
    scores = np.array([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    queries = np.repeat(QUERY, 2, axis=0)
    config = TourConfig(method, iterations=1, similarity_scale=1.0)
    stops = stops_of(MemoryCorpus(np.eye(3), scores, 3), queries, config)
    assert stops == [(StopReason.AGREEMENT, 0), (StopReason.ROUNDS, 1)]
    never = config.replace(early_stopping=False)
    assert stops_of(MemoryCorpus(np.eye(3), scores, 3), queries, never) == [(StopReason.ROUNDS, 1)] * 2


def test_a_query_stops_when_nothing_is_left_that_is_worth_a_label():
    # Labels follow similarities. One query has its relevant passages first; for the other, what comes next is as good.
    vectors = np.linspace(1, 0, 80)[:, None]
    scores = np.stack([60 * (vectors[:, 0] - 0.97), 2 + 0.1 * vectors[:, 0]])
    config = TourConfig(budget=50, calibrate="never", similarity_scale=1.0)
    stops = stops_of(MemoryCorpus(vectors, scores, 80), np.ones((2, 1)), config)
    assert stops == [(StopReason.NOTHING_TO_GAIN, 1), (StopReason.BUDGET, 5)]


@pytest.mark.parametrize("budget", [7, 10])
def test_a_method_that_keeps_its_labels_stops_when_the_budget_is_spent(budget):
    vectors = np.linspace(1, 0, 80)[:, None]
    config = TourConfig(depth=5, iterations=9, budget=budget, least_gain=0)
    corpus = MemoryCorpus(vectors, vectors.T.copy(), 80)
    assert stops_of(corpus, np.ones((1, 1)), config) == [(StopReason.BUDGET, 2)]
    assert len(corpus.scored) == budget


def test_the_papers_methods_stop_by_the_budget_only_if_it_leaves_no_candidate():
    config = TourConfig("hard", depth=1, iterations=1, budget=1, early_stopping=False)
    corpus = MemoryCorpus(np.eye(3), np.zeros((1, 3)), 3)
    assert stops_of(corpus, QUERY, config) == [(StopReason.ROUNDS, 1)]  # the same candidate again: it has a label
    results = iter([0, 1])
    corpus.search = lambda rows, queries: Hits(np.array([[next(results)]]), np.array([[1.0]]))
    corpus.scored.clear()
    assert stops_of(corpus, QUERY, config) == [(StopReason.BUDGET, 1)]
    assert corpus.scored == [(0, 0)]


@pytest.mark.parametrize("method", METHODS)
def test_a_query_without_hits_stops_because_it_has_no_candidates(method):
    corpus = MemoryCorpus(np.eye(3), np.zeros((1, 3)), 3)
    corpus.search = nothing_found
    assert [reason for reason, _ in stops_of(corpus, QUERY, TourConfig(method))] == [StopReason.NO_CANDIDATES]
    assert not corpus.scored


def test_a_query_stops_when_all_passages_are_labelled():
    corpus = MemoryCorpus(np.eye(3), np.array([[4.0, 5.0, 6.0]]), 3)
    assert stops_of(corpus, QUERY, TourConfig(depth=3)) == [(StopReason.NO_CANDIDATES, 1)]
    assert len(corpus.scored) == 3


@pytest.mark.parametrize("method", ["dense", "rerank"])
def test_a_method_without_updates_has_one_round(method):
    corpus = MemoryCorpus(np.eye(3), np.array([[1.0, 2.0, 3.0]]), 3)
    assert stops_of(corpus, QUERY, TourConfig(method)) == [(StopReason.ROUNDS, 0)]


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10**6), budget=st.sampled_from([0, 1, 7, 40]), early_stopping=st.booleans())
@settings(deadline=None, max_examples=15)
def test_observing_changes_nothing_and_every_reason_is_true(method, seed, budget, early_stopping):
    random = np.random.default_rng(seed)
    vectors, queries = random.normal(size=(15, 4)), random.normal(size=(3, 4))
    scores = 3 * random.normal(size=(3, 15))
    config = TourConfig(method, depth=4, budget=budget, early_stopping=early_stopping)
    rounds = []
    watched, alone = MemoryCorpus(vectors, scores, 15), MemoryCorpus(vectors, scores, 15)
    outcome, other = watched.run(queries, config, observe=rounds.append), alone.run(queries, config)
    assert np.array_equal(outcome.queries, other.queries)
    assert np.array_equal(outcome.updates, other.updates)
    assert watched.scored == alone.scored
    for row in range(3):
        ours, theirs = rank(outcome, row, config, hits=15), rank(other, row, config, hits=15)
        assert ours.ids.tolist() == theirs.ids.tolist() and ours.scores.tolist() == theirs.scores.tolist()
    for round_ in rounds:
        for i, (row, reason) in enumerate(zip(round_.rows.tolist(), round_.stops, strict=True)):
            labels = len(outcome.ledger.labelled(row).ids)
            candidates = round_.candidates
            assert (reason is not None) == (outcome.updates[row] == round_.t)
            if reason in (StopReason.AGREEMENT, StopReason.NOTHING_TO_GAIN):
                assert early_stopping and round_.t < config.rounds
            if reason is StopReason.AGREEMENT:
                first = candidates.labels[i, 0]
                assert method != "soft" or first == candidates.labels[i].max()
                assert method not in ("hard", "interpolation") or round_.target[i, 0] > 0
            if reason is StopReason.BUDGET:
                assert labels == budget > 0
            if reason is StopReason.ROUNDS:
                assert round_.t == config.rounds
                assert labels < 15 or not config.method_class.keeps_labels
            if reason is StopReason.NO_CANDIDATES:
                assert labels == 15


@pytest.mark.parametrize("method", METHODS)
def test_a_search_without_rounds_can_be_observed(method):
    random = np.random.default_rng(5)
    corpus, rounds = MemoryCorpus(random.normal(size=(9, 4)), random.normal(size=(2, 9)), 9), []
    outcome = corpus.run(random.normal(size=(2, 4)), TourConfig(method, iterations=0), observe=rounds.append)
    assert len(rounds) == 1 and not outcome.updates.any()
