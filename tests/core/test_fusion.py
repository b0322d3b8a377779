"""Several signals as one retrieval: by hand, against a brute-force sum, and what must not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus

from tour_pyserini.core.candidates import Candidates
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import Found, Fusion
from tour_pyserini.core.loop import optimise
from tour_pyserini.core.mixing import odds
from tour_pyserini.core.ranking import rank


def found(scores, count):
    """The `count` best documents of a signal with scores [n, m] for all documents."""
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return Found(ids, np.take_along_axis(scores, ids, axis=1))


def world(seed, *, documents=40, queries=3, d=6):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(documents, d))
    return vectors, random.normal(size=(queries, d)), random.normal(size=(queries, documents))


def fused(vectors, queries, signals, *, hits):
    corpus = MemoryCorpus(vectors, np.zeros((len(queries), len(vectors))), hits)
    return Fusion(corpus.search, corpus.vectors, signals, weight=1.0)


def test_by_hand():
    # Similarities 3, 2, 1, 0 have the variance 1.25.
    vectors, query = np.array([[3.0], [2.0], [1.0], [0.0]]), np.ones((1, 1))
    signal = Found(np.array([[3, 2, -1]]), np.array([[40.0, 20.0, -np.inf]]), absent=0.0)
    fusion = fused(vectors, query, [signal], hits=4)
    hits = fusion.search(np.array([0]), query)
    # Two of three documents were found, so the others count as 0: scores 0, 0, 20, 40, mean 15, variance 275.
    unit = np.sqrt(1.25 / 275)
    assert hits.ids.tolist() == [[0, 3, 2, 1]]
    expected = [3 - 15 * unit, 25 * unit, 1 + 5 * unit, 2 - 15 * unit]
    assert hits.similarities[0] == pytest.approx(expected)
    assert fusion.offsets(np.zeros(4, dtype=int), np.arange(4)) == pytest.approx(np.array([-15, -15, 5, 25]) * unit)


def test_documents_below_a_full_list_count_as_its_last_one():
    vectors, query = np.array([[3.0], [2.0], [1.0], [0.0]]), np.ones((1, 1))
    fusion = fused(vectors, query, [Found(np.array([[3, 2]]), np.array([[40.0, 20.0]]), absent=0.0)], hits=4)
    fusion.search(np.array([0]), query)
    # Scores 20, 20, 20, 40: mean 25, variance 75.
    offsets = fusion.offsets(np.zeros(4, dtype=int), np.arange(4))
    assert offsets == pytest.approx(np.array([-5, -5, -5, 15]) * np.sqrt(1.25 / 75))


@given(seed=st.integers(0, 10**6), hits=st.integers(1, 40), found_by_signal=st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_the_list_is_that_of_a_sum_over_all_documents(seed, hits, found_by_signal):
    vectors, queries, scores = world(seed)
    signal = found(scores, found_by_signal)
    got = fused(vectors, queries, [signal], hits=hits).search(np.arange(3), queries)
    fusion = fused(vectors, queries, [signal], hits=40)
    everything = fusion.search(np.arange(3), queries)
    for row in range(3):
        offsets = fusion.offsets(np.full(40, row), np.arange(40))
        assert np.argsort(-(vectors @ queries[row] + offsets), kind="stable").tolist() == everything.ids[row].tolist()
    # With at least as many hits as the sample has, a shorter list is the beginning of the longer one.
    if hits == 40:
        assert (got.ids == everything.ids).all()
    assert got.ids.shape == (3, hits)


def test_a_shorter_list_is_the_beginning_of_a_longer_one():
    vectors, queries, scores = world(5, documents=400)
    signal = found(scores, 150)
    long = fused(vectors, queries, [signal], hits=300).search(np.arange(3), queries)
    short = fused(vectors, queries, [signal], hits=120).search(np.arange(3), queries)
    assert (short.ids == long.ids[:, :120]).all()
    assert (short.similarities == long.similarities[:, :120]).all()


@given(seed=st.integers(0, 10**6), factor=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
@settings(deadline=None, max_examples=40)
def test_a_signal_may_have_any_unit_and_any_zero(seed, factor, shift):
    vectors, queries, scores = world(seed)
    plain = fused(vectors, queries, [found(scores, 20)], hits=40).search(np.arange(3), queries)
    other = fused(vectors, queries, [found(factor * scores + shift, 20)], hits=40).search(np.arange(3), queries)
    assert (plain.ids == other.ids).all()
    assert plain.similarities == pytest.approx(other.similarities, rel=1e-6, abs=1e-6)


@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=20)
def test_numbering_the_documents_otherwise_changes_nothing(seed):
    vectors, queries, scores = world(seed)
    order = np.random.default_rng(seed).permutation(40)
    plain = fused(vectors, queries, [found(scores, 20)], hits=40).search(np.arange(3), queries)
    other = fused(vectors[order], queries, [found(scores[:, order], 20)], hits=40).search(np.arange(3), queries)
    assert (plain.ids == order[other.ids]).all()


def test_a_query_depends_on_its_own_signals_alone():
    vectors, queries, scores = world(2)
    signal = found(scores, 20)
    together = fused(vectors, queries, [signal], hits=30).search(np.arange(3), queries)
    fusion = fused(vectors, queries, [signal], hits=30)
    for row in (2, 0, 1):
        alone = fusion.search(np.array([row]), queries[[row]])
        assert (alone.ids[0] == together.ids[row]).all()
        assert alone.similarities[0] == pytest.approx(together.similarities[row], rel=1e-12)


@pytest.mark.parametrize("scores", [[], [7.0] * 40])
def test_a_signal_without_anything_to_say_leaves_the_index_in_its_order(scores):
    vectors, queries, _ = world(3)
    ids, values = (np.tile(np.array(row), (3, 1)).reshape(3, -1) for row in (range(len(scores)), scores))
    signal = Found(ids.astype(np.int64), values)
    got = fused(vectors, queries, [signal], hits=40).search(np.arange(3), queries)
    plain = MemoryCorpus(vectors, np.zeros((3, 40)), 40).search(np.arange(3), queries)
    assert (got.ids == plain.ids).all()
    assert got.similarities == pytest.approx(plain.similarities)


def test_two_signals_add_up_and_their_order_does_not_matter():
    vectors, queries, scores = world(4)
    other = np.random.default_rng(9).normal(size=scores.shape)
    signals = [found(scores, 20), found(other, 30)]
    one, two = (
        fused(vectors, queries, order, hits=40).search(np.arange(3), queries) for order in (signals, signals[::-1])
    )
    assert (one.ids == two.ids).all()
    assert one.similarities == pytest.approx(two.similarities)


@pytest.mark.parametrize("method", ["anchored", "rerank", "hard", "anchored-soft", "refit"])
def test_what_only_a_signal_finds_is_labelled_and_ranked(method):
    """The best document is the last of the index and the first of the signal."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(200, 8)) + np.eye(8)[0] * np.linspace(9, 0, 200)[:, None]
    query = np.eye(8)[:1] * 3
    scores = np.where(np.arange(200) == 199, 9.0, random.normal(size=200) - 8)[None]
    words = np.where(np.arange(200) == 199, 50.0, random.random(200))[None]
    corpus = MemoryCorpus(vectors, scores, 120)
    config = TourConfig(method)
    calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score}
    outcome = optimise(query, config, **calls, signals=[found(words, 100)])
    assert (0, 199) in corpus.scored
    assert rank(outcome, 0, config, hits=10).ids[0] == 199
    without = MemoryCorpus(vectors, scores, 120)
    without.run(query, config)
    assert (0, 199) not in without.scored


def labelled_world(seed=0, documents=200):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(documents, 8))
    return vectors, random.normal(size=(2, 8)), random.normal(size=(2, documents)), random.normal(size=(2, documents))


def ranked(vectors, queries, words, labels, **settings):
    config = TourConfig("anchored", budget=30, least_gain=0, **settings)
    corpus = MemoryCorpus(vectors, labels, 120)
    calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score}
    outcome = optimise(queries, config, **calls, signals=[found(words, 100)] if words is not None else ())
    return outcome, [rank(outcome, row, config, hits=120) for row in range(len(queries))]


def test_a_label_counts_by_its_odds():
    """The final score of labelled documents by hand: a (q_0 c + e) + belief a sd_0 exp((s - mean) / deviation)."""
    vectors, queries, words, labels = labelled_world()
    outcome, rankings = ranked(vectors, queries, words, labels, belief=0.3)
    for row, ranking in enumerate(rankings):
        known, bought, _, offsets = outcome.ledger.labelled(row)
        assert len(known) == 30
        z = (bought - bought.mean()) / bought.std()
        unit = outcome.fusion.unit(row)
        expected = outcome.scale[row] * (vectors[known] @ queries[row] + offsets + 0.3 * unit * np.exp(z))
        got = dict(zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True))
        there = [i for i, id_ in enumerate(known.tolist()) if id_ in got]
        assert len(there) > 20
        assert [got[known[i]] for i in there] == pytest.approx(expected[there])


@pytest.mark.parametrize(("factor", "shift"), [(1.0, 40.0), (0.01, 0.0), (300.0, -7.0)])
def test_labels_of_another_unit_and_another_zero_give_the_same_order_of_what_is_labelled(factor, shift):
    """For the same candidates: one round, whose candidates are found before any label is known."""
    vectors, queries, words, labels = labelled_world(3)
    _, plain = ranked(vectors, queries, words, labels, depth=30)
    other_outcome, other = ranked(vectors, queries, words, factor * labels + shift, depth=30)
    for row in range(2):
        known = set(other_outcome.ledger.labelled(row).ids.tolist())
        one, two = ([id_ for id_ in each[row].ids.tolist() if id_ in known] for each in (plain, other))
        assert one[:15] == two[:15]


def test_without_belief_the_list_is_that_of_the_signals():
    vectors, queries, words, labels = labelled_world(4)
    _, rankings = ranked(vectors, queries, words, labels, belief=0, signal_step=0)
    corpus = MemoryCorpus(vectors, labels, 120)
    hits = Fusion(corpus.search, corpus.vectors, [found(words, 100)], weight=0.5).search(np.arange(2), queries)
    for ranking, ids in zip(rankings, hits.ids, strict=True):
        assert ranking.ids.tolist() == ids.tolist()


def test_with_one_signal_neither_new_setting_changes_anything():
    vectors, queries, _, labels = labelled_world(5)
    _, plain = ranked(vectors, queries, None, labels)
    _, other = ranked(vectors, queries, None, labels, belief=5, signal_weight=9, signal_step=1)
    for one, two in zip(plain, other, strict=True):
        assert (one.ids == two.ids).all() and (one.scores == two.scores).all()


def test_labels_that_are_all_equal_say_nothing():
    assert odds(np.array([2.0, 9.0]), np.full(5, 2.0)).tolist() == [1, 1]
    assert odds(np.array([1e9, -1e9]), np.arange(3.0)) == pytest.approx([np.exp(6), np.exp(-6)])


def test_a_query_of_which_the_signal_says_nothing_has_the_list_that_it_has_without():
    vectors, queries, _, labels = labelled_world(7)
    nothing = Found(np.full((2, 50), -1), np.full((2, 50), -np.inf))
    config = TourConfig("anchored", budget=30, least_gain=0)
    corpus = MemoryCorpus(vectors, labels, 120)
    calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score}
    got, plain = optimise(queries, config, **calls, signals=[nothing]), optimise(queries, config, **calls)
    for row in range(2):
        one, two = (rank(outcome, row, config, hits=120) for outcome in (got, plain))
        assert (one.ids == two.ids).all() and (one.scores == two.scores).all()


def test_each_query_moves_as_its_own_signals_say():
    """The signal finds nothing for the second query, which is held as one without further signals is."""
    vectors, queries, words, labels = labelled_world(6)
    signal = found(words, 100)
    signal.ids[1], signal.scores[1] = -1, -np.inf
    moved = {}
    for changed in ({}, {"anchor": 0.5}, {"signal_step": 0.5}, {"signal_step": 0}):
        config = TourConfig("anchored", budget=20, least_gain=0, **changed)
        corpus = MemoryCorpus(vectors, labels, 120)
        calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score}
        outcome = optimise(queries, config, **calls, signals=[signal])
        moved[str(changed)] = np.linalg.norm(outcome.queries - queries, axis=1)
    first, other_anchor, other_step, held = moved.values()
    assert (first == other_anchor).tolist() == [True, False]
    assert (first == other_step).tolist() == [False, True]
    assert held[0] == 0 < held[1]


@pytest.mark.parametrize(("factor", "shift"), [(1.0, 0.0), (0.01, 40.0), (300.0, -7.0)])
def test_with_a_signal_the_query_takes_a_step_of_rocchio_by_the_odds_of_its_labels(factor, shift):
    """By hand: labels -1, 0, 1 have the odds exp(-1.2247), 1, exp(1.2247); the step is 0.5.

    The query has the length 2; the mean of the candidates' squared lengths is 4 / 3.
    """
    vectors, start = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]), np.array([[2.0, 0.0]])
    labels = factor * np.array([[-1.0, 0.0, 1.0]]) + shift
    config = TourConfig("anchored", signal_step=0.5)
    offsets = np.array([[0.1, 0.0, 0.0]])
    candidates = Candidates(np.array([[0, 1, 2]]), vectors, np.zeros((1, 3)), labels, offsets=offsets)
    moved = config.new_method(start).update(np.array([0]), start, candidates, np.zeros((1, 3)), 0)
    weights = np.exp([-np.sqrt(1.5), 0, np.sqrt(1.5)])
    weights /= weights.sum()
    step = 0.5 * 2 / np.sqrt(4 / 3)
    assert moved[0] == pytest.approx(
        [2 + step * (weights[0] + weights[2] - 2 / 3), step * (weights[1] + weights[2] - 2 / 3)]
    )


@pytest.mark.parametrize(("of_queries", "of_passages"), [(0.1, 10.0), (3.0, 3.0), (1.0, 20.0)])
def test_the_lists_do_not_depend_on_the_lengths_of_vectors(of_queries, of_passages):
    vectors, queries, words, labels = labelled_world(8)
    config = TourConfig("anchored", budget=30, signal_least_gain=0)
    lists = []
    for a, b in ((1.0, 1.0), (of_queries, of_passages)):
        corpus = MemoryCorpus(b * vectors, labels, 120)
        calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score}
        outcome = optimise(a * queries, config, **calls, signals=[found(words, 100)])
        lists.append([rank(outcome, row, config, hits=60).ids.tolist() for row in range(len(queries))])
    assert lists[0] == lists[1]


@pytest.mark.parametrize("method", ["anchored-soft", "anchored-hard"])
def test_the_losses_of_the_paper_are_minimised_with_a_signal_too(method):
    vectors, queries, words, labels = labelled_world(6)
    moved = []
    for changed in ({}, {"anchor": 0.5}, {"anchor": np.inf}):
        config = TourConfig(method, budget=20, least_gain=0, **changed)
        corpus = MemoryCorpus(vectors, labels, 120)
        calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score}
        outcome = optimise(queries, config, **calls, signals=[found(words, 100)])
        moved.append(np.linalg.norm(outcome.queries - queries, axis=1))
    assert (moved[0] != moved[1]).all()
    assert moved[2] == pytest.approx(0, abs=1e-12)


def test_a_signal_of_another_zero_counts_what_it_did_not_find_as_its_last_one():
    vectors, query = np.array([[3.0], [2.0], [1.0], [0.0]]), np.ones((1, 1))
    for zero in (0.0, 500.0, -500.0):
        signal = Found(np.array([[3, 2, -1]]), np.array([[zero + 40.0, zero + 20.0, -np.inf]]))
        fusion = fused(vectors, query, [signal], hits=4)
        fusion.search(np.array([0]), query)
        offsets = fusion.offsets(np.zeros(4, dtype=int), np.arange(4))
        assert offsets == pytest.approx(np.array([-5, -5, -5, 15]) * np.sqrt(1.25 / 75))


def test_where_similarities_do_not_differ_the_signal_decides():
    vectors, _, words = world(5)
    queries = np.zeros((3, 6))
    hits = fused(vectors, queries, [found(words, 40)], hits=40).search(np.arange(3), queries)
    assert (hits.ids == np.argsort(-words, axis=1)).all()


def test_a_query_with_a_signal_stops_by_its_own_least_gain():
    """The second query, of which the signal says nothing, follows the rule of one signal."""
    vectors, queries, words, labels = labelled_world(6)
    signal = found(words, 100)
    signal.ids[1], signal.scores[1] = -1, -np.inf
    spent = {}
    for least in ({}, {"least_gain": 1e6}, {"signal_least_gain": 1e6}):
        config = TourConfig("anchored", budget=60, **{"least_gain": 0, "signal_least_gain": 0, **least})
        corpus = MemoryCorpus(vectors, labels, 120)
        calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score}
        outcome = optimise(queries, config, **calls, signals=[signal])
        spent[str(least)] = outcome.ledger.spent(np.arange(2)).tolist()
    assert list(spent.values()) == [[60, 60], [60, 10], [10, 60]]
