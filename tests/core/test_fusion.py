"""Several signals as one retrieval: by hand, against a brute-force sum, and what must not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus, found, world

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import SignalHits

LINE = MemoryCorpus([[3.0], [2.0], [1.0], [0.0]], np.zeros((1, 4)))  # similarities 3, 2, 1, 0 have the variance 1.25


def search(corpus, queries, signals):
    """The tasks of hybrid searches, ended."""
    return corpus.run(queries, TourConfig("dense", signal_weight=1.0), hits=40, signals=signals)


def lists(tasks):
    return [task.outcome.ranking.ids.tolist() for task in tasks]


def test_by_hand():
    # Two of three documents were found, so the others count as 0: scores 0, 0, 20, 40, mean 15, variance 275.
    signal = SignalHits(np.array([[3, 2, -1]]), np.array([[40.0, 20.0, -np.inf]]), absent=0.0)
    (task,) = search(LINE, np.ones((1, 1)), [signal])
    unit = np.sqrt(1.25 / 275)
    ids, scores = task.outcome.ranking
    assert ids.tolist() == [0, 3, 2, 1]
    assert scores == pytest.approx([3 - 15 * unit, 25 * unit, 1 + 5 * unit, 2 - 15 * unit])
    assert task.query.offsets(np.arange(4)) == pytest.approx(np.array([-15, -15, 5, 25]) * unit)
    assert task.query.spread == pytest.approx(np.sqrt(1.25))


@pytest.mark.parametrize(
    "signal",
    [
        SignalHits(np.array([[3, 2]]), np.array([[40.0, 20.0]]), absent=0.0),  # a full list: there may be more
        SignalHits(np.array([[3, 2, -1]]), np.array([[540.0, 520.0, -np.inf]])),  # a signal of another zero
    ],
)
def test_documents_that_were_not_found_may_count_as_the_last_one(signal):
    (task,) = search(LINE, np.ones((1, 1)), [signal])
    # Scores 20, 20, 20, 40: mean 25, variance 75.
    assert task.query.offsets(np.arange(4)) == pytest.approx(np.array([-5, -5, -5, 15]) * np.sqrt(1.25 / 75))


@given(seed=st.integers(0, 10**6), found_by_signal=st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_the_list_is_that_of_a_sum_over_all_documents(seed, found_by_signal):
    corpus, queries, scores = world(seed)
    for row, task in enumerate(search(corpus, queries, [found(scores, found_by_signal)])):
        total = corpus.vectors @ queries[row] + task.query.offsets(np.arange(40))
        assert task.outcome.ranking.ids.tolist() == np.argsort(-total, kind="stable").tolist()
        assert task.outcome.ranking.scores == pytest.approx(np.sort(total)[::-1])


@given(seed=st.integers(0, 10**6), factor=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
@settings(deadline=None, max_examples=40)
def test_a_signal_may_have_any_unit_and_any_zero(seed, factor, shift):
    corpus, queries, scores = world(seed)
    plain, other = (search(corpus, queries, [found(some, 20)]) for some in (scores, factor * scores + shift))
    assert lists(plain) == lists(other)


@pytest.mark.parametrize("scores", [[], [7.0] * 40])
def test_a_signal_without_anything_to_say_leaves_the_index_in_its_order(scores):
    corpus, queries, _ = world(3)
    ids, values = (np.tile(np.array(row), (3, 1)).reshape(3, -1) for row in (range(len(scores)), scores))
    assert lists(search(corpus, queries, [SignalHits(ids.astype(np.int64), values)])) == lists(
        search(corpus, queries, [])
    )


@pytest.mark.parametrize("method", ["tour", "rerank", "hard", "soft"])
def test_what_only_a_signal_finds_is_labelled_and_ranked(method):
    """The best document is the last of the index and the first of the signal."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(200, 8)) + np.eye(8)[0] * np.linspace(9, 0, 200)[:, None]
    query = np.eye(8)[:1] * 3
    labels = np.where(np.arange(200) == 199, 9.0, random.normal(size=200) - 8)[None]
    words = np.where(np.arange(200) == 199, 50.0, random.random(200))[None]
    corpus = MemoryCorpus(vectors, labels)
    (task,) = corpus.run(query, TourConfig(method, signal_weight=1.0), signals=[found(words, 100)])
    assert 199 in task.labels and task.outcome.ranking.ids[0] == 199
    (task,) = corpus.run(query, TourConfig(method))
    assert 199 not in task.labels


def test_where_similarities_do_not_differ_the_signal_decides():
    corpus, _, words = world(5)
    assert lists(search(corpus, np.zeros((3, 6)), [found(words, 40)])) == np.argsort(-words, axis=1).tolist()
