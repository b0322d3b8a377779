"""Several signals as one retrieval: by hand, against a brute-force sum, and what must not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import SignalHits

LINE = np.array([[3.0], [2.0], [1.0], [0.0]])  # similarities 3, 2, 1, 0 have the variance 1.25


def found(scores, count):
    """The `count` best documents of a signal with scores [n, m] for all documents."""
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return SignalHits(ids, np.take_along_axis(scores, ids, axis=1))


def world(seed, *, documents=40, queries=3, d=6):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(documents, d))
    return vectors, random.normal(size=(queries, d)), random.normal(size=(queries, documents))


def search(vectors, queries, signals, *, hits=40, weight=1.0):
    """The tasks of hybrid searches, ended."""
    corpus = MemoryCorpus(vectors, np.zeros((len(queries), len(vectors))))
    return corpus.run(queries, TourConfig("dense", signal_weight=weight), hits=hits, signals=signals)


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
    vectors, queries, scores = world(seed)
    for row, task in enumerate(search(vectors, queries, [found(scores, found_by_signal)])):
        total = vectors @ queries[row] + task.query.offsets(np.arange(40))
        assert task.outcome.ranking.ids.tolist() == np.argsort(-total, kind="stable").tolist()
        assert task.outcome.ranking.scores == pytest.approx(np.sort(total)[::-1])


@given(seed=st.integers(0, 10**6), factor=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
@settings(deadline=None, max_examples=40)
def test_a_signal_may_have_any_unit_and_any_zero(seed, factor, shift):
    vectors, queries, scores = world(seed)
    plain, other = (search(vectors, queries, [found(some, 20)]) for some in (scores, factor * scores + shift))
    assert lists(plain) == lists(other)


@pytest.mark.parametrize("scores", [[], [7.0] * 40])
def test_a_signal_without_anything_to_say_leaves_the_index_in_its_order(scores):
    vectors, queries, _ = world(3)
    ids, values = (np.tile(np.array(row), (3, 1)).reshape(3, -1) for row in (range(len(scores)), scores))
    assert lists(search(vectors, queries, [SignalHits(ids.astype(np.int64), values)])) == lists(
        search(vectors, queries, [])
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
    vectors, _, words = world(5)
    assert lists(search(vectors, np.zeros((3, 6)), [found(words, 40)])) == np.argsort(-words, axis=1).tolist()
