import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import Reranker, score_pairs
from tour_pyserini.rerankers.local_reranker import relevance_logits

PAIRS = [("who wrote hamlet", "Shakespeare did."), ("who wrote emma", "Austen did.")]


class Fixed:
    def __init__(self, scores):
        self.scores = scores

    def predict(self, pairs):
        return self.scores


def test_finite_scores_are_returned_as_float64():
    scores = score_pairs(Fixed([1, 2.5]), PAIRS)
    assert scores.tolist() == [1.0, 2.5]
    assert scores.dtype == np.float64


@pytest.mark.parametrize("scores", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0, [[1.0], [2.0]]])
def test_a_wrong_number_of_scores_names_the_reranker(scores):
    with pytest.raises(TourError, match=r"Fixed.*shape.*2 pairs"):
        score_pairs(Fixed(scores), PAIRS)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_bad_score_names_query_passage_and_reranker(bad):
    with pytest.raises(TourError, match=r"Fixed.*'who wrote emma'.*'Austen did.'"):
        score_pairs(Fixed([0.0, bad]), PAIRS)


def test_without_pairs_predict_is_not_called():
    assert score_pairs(Fixed(None), []).shape == (0,)


def test_any_object_with_predict_is_a_reranker():
    assert isinstance(Fixed([]), Reranker)
    assert not isinstance(object(), Reranker)


def test_one_logit_is_the_score_two_give_their_difference_three_are_refused():
    assert relevance_logits(np.array([1.0, 2.0]), "m").tolist() == [1.0, 2.0]
    assert relevance_logits(np.array([[1.0], [2.0]]), "m").tolist() == [1.0, 2.0]
    assert relevance_logits(np.array([[1.0, 4.0], [2.0, 1.0]]), "m").tolist() == [3.0, -1.0]
    with pytest.raises(TourError, match="model-x gives 3 outputs"):
        relevance_logits(np.zeros((2, 3)), "model-x")
