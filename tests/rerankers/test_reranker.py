"""The functions through which scores leave a re-ranker: each distinct pair once, checked."""

import numpy as np
import pytest

from tour_pyserini.data.documents import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import Reranker, score_pairs
from tour_pyserini.rerankers.reranker import PartsReranker, score_pairs_counted, score_parts

PAIRS = [("who wrote hamlet", "Shakespeare did."), ("who wrote emma", "Austen did.")]


class Fixed:
    def __init__(self, scores):
        self.scores = scores

    def predict(self, pairs):
        return self.scores


class InParts(PartsReranker):
    def __init__(self, *parts):
        self.parts = parts

    def predict_parts(self, pairs):
        yield from self.parts


def test_finite_scores_are_returned_as_float64():
    scores = score_pairs(Fixed([1, 2.5]), PAIRS)
    assert scores.tolist() == [1.0, 2.5]
    assert scores.dtype == np.float64
    assert score_pairs(Fixed(None), []).shape == (0,)  # predict is not called


def test_each_distinct_pair_is_scored_once():
    class Lengths:
        def predict(self, pairs):
            asked.append(list(pairs))
            return [len(passage) for _, passage in pairs]

    asked = []
    scores, computed = score_pairs_counted(Lengths(), [("q", "aa"), ("q", "b"), ("q", "aa"), ("r", "aa")])
    assert (scores.tolist(), computed) == ([2, 1, 2, 2], 3)
    assert asked == [[("q", "aa"), ("q", "b"), ("r", "aa")]]


def test_pairs_are_distinct_by_what_the_model_reads():
    class Titles:
        def reads(self, passage):
            return "|".join(passage.parts)

        def predict(self, pairs):
            return [len(passage.parts[0]) for _, passage in pairs]

    assert score_pairs(Titles(), [("q", Passage("a", "b c")), ("q", Passage("a b", "c"))]).tolist() == [1, 3]


def test_parts_make_the_scores_of_a_call_and_report_progress():
    reranker, seen = InParts((np.array([1]), np.array([2.0])), (np.array([0]), np.array([1.0]))), []
    reranker.on_progress = seen.append
    assert reranker.predict(PAIRS).tolist() == [1.0, 2.0]
    assert seen == [1, 1]


@pytest.mark.parametrize(
    ("reranker", "word"),
    [
        *((Fixed(scores), "shape") for scores in ([1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0)),
        (Fixed("text"), "number"),
        (Fixed(None), "shape"),
        *((Fixed([0.0, bad]), "Austen") for bad in (float("nan"), float("inf"))),
        (InParts((np.array([0]), np.array([1.0]))), "1 of 2"),
        (InParts((np.array([0, 1]), np.array([1.0, np.nan]))), "Austen"),
    ],
)
def test_wrong_scores_are_refused(reranker, word):
    with pytest.raises(TourError, match=rf"(Fixed|InParts).*{word}"):
        list(score_parts(reranker, PAIRS))
    if isinstance(reranker, Fixed):
        with pytest.raises(TourError, match=word):
            score_pairs(reranker, PAIRS)


def test_any_object_with_predict_is_a_reranker():
    assert isinstance(Fixed([]), Reranker)
    assert not isinstance(object(), Reranker)
