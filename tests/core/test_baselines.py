"""The baselines by hand: dense retrieval, re-ranking and its final score, Rocchio and average."""

import numpy as np
import pytest
from memory_corpus import MemoryCorpus

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.method import StopReason

QUERY = np.array([[3.0, 2.0, 1.0, 0.5]])


@pytest.fixture
def corpus():
    return MemoryCorpus(np.eye(4), [[1.0, 5.0, 3.0, 9.0]])


def test_dense_is_the_retrieval_and_labels_nothing(corpus):
    (task,) = corpus.run(QUERY, TourConfig("dense"), hits=3)
    assert task.outcome.ranking.ids.tolist() == [0, 1, 2]
    assert task.outcome.ranking.scores.tolist() == [3.0, 2.0, 1.0]
    assert not corpus.labelled and not corpus.fetched


@pytest.mark.parametrize(
    ("settings", "ids", "scores"),
    [
        # Labels order the first three, and the last one stays below.
        ({"depth": 3, "similarity_scale": 2.0}, [1, 2, 0, 3], [5, 3, 1, 0.5]),
        # Raw scores are added.
        ({"depth": 2, "score_weight": 0.25, "similarity_scale": 2.0}, [0, 1, 2, 3], [4.75, 4.25, 2.0, 1.0]),
        # Labels 1 and 5, similarities 3 and 2: both become -1 and 1.
        ({"depth": 2, "score_weight": 0.75, "aggregation": "standardised"}, [1, 0], [0.5, -0.5]),
        # The published code adds probabilities: e^-4 = 0.0183 to 1, and 1 to e^-1 = 0.3679.
        (
            {"depth": 2, "score_weight": 0.5, "aggregation": "softmax", "similarity_scale": 100.0},
            [1, 0],
            [(1 / (1 + np.exp(-4)) + 1 / (1 + np.e)) / 2, (1 / (1 + np.exp(4)) + 1 / (1 + 1 / np.e)) / 2],
        ),
    ],
)
def test_final_scores_by_hand(corpus, settings, ids, scores):
    (task,) = corpus.run(QUERY, TourConfig("rerank", **settings))
    ranking = task.outcome.ranking
    assert ranking.ids[: len(ids)].tolist() == ids
    assert ranking.scores[: min(len(scores), 3)] == pytest.approx(scores[:3])
    assert (np.diff(ranking.scores) <= 0).all() and not corpus.fetched


def test_what_was_not_labelled_in_time_follows_in_order(corpus):
    (task,) = corpus.run(QUERY, TourConfig("rerank", depth=3), label=lambda _: [np.array([1.0, np.nan, 2.0])])
    assert task.outcome.ranking.ids.tolist() == [2, 0, 1, 3]
    assert task.outcome.stop is StopReason.DEADLINE


def test_an_index_without_documents():
    empty = MemoryCorpus(np.empty((0, 4)), np.empty((1, 0)))
    for method in ("dense", "rerank", "tour", "hard", "soft", "top", "interpolation", "rocchio", "average"):
        (task,) = empty.run(QUERY, TourConfig(method))
        assert not len(task.outcome.ranking.ids)


VECTORS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0], [0.0, 0.0, 0.1]])
ONES = np.array([[1.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (TourConfig("average", depth=2), [12 / 3, 14 / 3, 17 / 3]),
        (TourConfig("average", depth=2, iterations=0), [1, 1, 1]),
        (
            TourConfig("rocchio", depth=3, positives=1, rocchio_alpha=0.5, rocchio_beta=1, rocchio_gamma=2),
            [0.5 + 7 - 2 * 2.5, 0.5 + 8 - 2 * 3.5, 0.5 + 10 - 2 * 4.5],
        ),
        # No candidate is left to move away from.
        (TourConfig("rocchio", depth=2, positives=5), [0.9 + 0.1 * 5.5, 0.9 + 0.1 * 6.5, 0.9 + 0.1 * 8]),
    ],
    ids=str,
)
def test_feedback_by_hand(config, expected):
    corpus = MemoryCorpus(VECTORS, np.zeros((1, 4)))
    (task,) = corpus.run(ONES, config, hits=2)
    assert task.outcome.vector == pytest.approx(expected)
    assert task.outcome.ranking.ids[:2].tolist() == np.argsort(-(VECTORS @ expected))[:2].tolist()
    assert not corpus.labelled
