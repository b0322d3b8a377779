import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.core.candidates import Hits
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.loop import optimise
from tour_pyserini.core.ranking import rank, strictly_decreasing
from tour_pyserini.errors import TourError


def reranked(config, hits=4):
    ids, similarities = np.array([[10, 11, 12, 13]]), np.array([[0.9, 0.8, 0.7, 0.6]])
    outcome = optimise(
        np.ones((1, 2)),
        config,
        search=lambda rows, queries: Hits(ids, similarities),
        vectors=lambda ids: np.zeros((len(ids), 2)),
        score=lambda rows, ids: (ids == 11) * 4.0,
    )
    return rank(outcome, 0, config, hits=hits)


def test_lambda_by_hand():
    config = TourConfig(method="rerank", depth=3, score_weight=0.25, similarity_scale=10.0)
    ranking = reranked(config)
    assert ranking.ids.tolist() == [11, 10, 12, 13]
    assert ranking.scores[:3] == pytest.approx([1 + 6, 6.75, 5.25])
    assert ranking.scores[3] < 5.25


def test_documents_below_the_labelled_ones_keep_their_order_and_distances():
    config = TourConfig(method="rerank", depth=1, score_weight=1.0, similarity_scale=10.0)
    ranking = reranked(config)
    assert ranking.ids.tolist() == [10, 11, 12, 13]
    assert np.diff(ranking.scores[1:]) == pytest.approx([-1.0, -1.0])


def test_official_aggregation_by_hand():
    config = TourConfig(method="rerank", depth=2, score_weight=0.5, similarity_scale=100.0, aggregation="softmax")
    score_share = np.exp(4) / (1 + np.exp(4))
    similarity_share = np.exp(0.8) / (np.exp(0.8) + np.exp(0.9))
    assert reranked(config).scores[0] == pytest.approx(0.5 * score_share + 0.5 * similarity_share)


def test_hits_cut_the_list():
    assert reranked(TourConfig.preset("rerank"), hits=2).ids.tolist() == [11, 10]


def test_strictly_decreasing_by_hand():
    assert strictly_decreasing(np.array([0.5, 0.5, 0.4, 0.4, 0.1])).tolist() == [
        0.5,
        0.499999,
        0.4,
        0.399999,
        0.1,
    ]


@pytest.mark.parametrize("score", [1e13, -1e13, np.inf, np.nan])
def test_scores_that_fit_no_run_file_are_refused(score):
    with pytest.raises(TourError, match="run file"):
        strictly_decreasing(np.array([1.0, score]))


@given(st.lists(st.floats(-1e5, 1e5), max_size=60))
def test_strictly_decreasing_in_a_run_file(values):
    scores = np.sort(np.array(values))[::-1]
    printed = [float(f"{score:.6f}") for score in strictly_decreasing(scores)]
    assert all(a > b for a, b in itertools.pairwise(printed))
    assert np.abs(np.array(printed) - scores).max(initial=0) <= 1e-6 * (len(values) + 1)
