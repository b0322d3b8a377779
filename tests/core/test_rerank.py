"""Dense retrieval, re-ranking and the final score: by hand."""

import numpy as np
import pytest
from memory_corpus import MemoryCorpus

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.method import StopReason

QUERY = np.array([[3.0, 2.0, 1.0, 0.5]])


@pytest.fixture
def corpus():
    return MemoryCorpus(np.eye(4), [[1.0, 5.0, 3.0, 9.0]])


def ranked(corpus, **settings):
    (task,) = corpus.run(QUERY, TourConfig(**settings))
    return task.outcome.ranking


def test_dense_is_the_retrieval_and_labels_nothing(corpus):
    (task,) = corpus.run(QUERY, TourConfig("dense"), hits=3)
    assert task.outcome.ranking.ids.tolist() == [0, 1, 2]
    assert task.outcome.ranking.scores.tolist() == [3.0, 2.0, 1.0]
    assert not corpus.labelled and not corpus.fetched


def test_labels_order_the_first_candidates_and_the_others_stay_below(corpus):
    ranking = ranked(corpus, method="rerank", depth=3, similarity_scale=2.0)
    assert ranking.ids.tolist() == [1, 2, 0, 3]
    assert ranking.scores[:3].tolist() == [5.0, 3.0, 1.0] and ranking.scores[3] < 1.0
    assert not corpus.fetched


def test_raw_scores_are_added(corpus):
    ranking = ranked(corpus, method="rerank", depth=2, score_weight=0.25, similarity_scale=2.0)
    assert dict(zip(ranking.ids.tolist(), ranking.scores, strict=True)) == pytest.approx(
        {1: 0.25 * 5 + 0.75 * 4, 0: 0.25 * 1 + 0.75 * 6, 2: 2.0, 3: 1.0}
    )


def test_mixed_scores_are_standardised(corpus):
    # Labels 1 and 5, similarities 3 and 2: both become -1 and 1.
    ranking = ranked(corpus, method="rerank", depth=2, score_weight=0.75, aggregation="standardised")
    assert ranking.ids[:2].tolist() == [1, 0]
    assert ranking.scores[:2] == pytest.approx([0.5, -0.5])
    assert TourConfig.preset("mixed") == TourConfig("rerank", depth=30, score_weight=0.5, aggregation="standardised")


def test_the_published_code_adds_probabilities(corpus):
    ranking = ranked(corpus, method="rerank", depth=2, score_weight=0.5, aggregation="softmax", similarity_scale=100.0)
    odds = np.exp([1.0, 5.0]), np.exp([3.0, 2.0])
    expected = sum(0.5 * part / part.sum() for part in odds)
    assert ranking.scores[:2] == pytest.approx(sorted(expected, reverse=True))


def test_what_was_not_labelled_in_time_follows_in_order(corpus):
    (task,) = corpus.run(QUERY, TourConfig("rerank", depth=3), label=lambda _: [np.array([1.0, np.nan, 2.0])])
    assert task.outcome.ranking.ids.tolist() == [2, 0, 1, 3]
    assert task.outcome.stop is StopReason.DEADLINE


def test_an_index_without_documents():
    empty = MemoryCorpus(np.empty((0, 4)), np.empty((1, 0)))
    for method in ("dense", "rerank", "tour", "hard", "soft", "top", "interpolation", "rocchio", "average"):
        (task,) = empty.run(QUERY, TourConfig(method))
        assert not len(task.outcome.ranking.ids)
