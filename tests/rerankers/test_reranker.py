"""The functions through which scores leave a re-ranker: each distinct pair once, checked."""

import numpy as np
import pytest

from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import PartsReranker, score_pairs, score_pairs_counted, score_parts
from tour_pyserini.rerankers.score_cache import CachedReranker

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
    assert (scores.tolist(), scores.dtype) == ([1.0, 2.5], np.float64)
    assert score_pairs(Fixed(None), []).shape == (0,)  # predict is not called


class Titles(PartsReranker):
    """Scores the length of the title, pair by pair, and records what it was asked for."""

    fingerprint, asked = "titles", ()

    def reads(self, passage):
        return "|".join(passage.parts)

    def predict_parts(self, pairs):
        self.asked = pairs
        for position, (_, passage) in enumerate(pairs):
            yield np.array([position]), np.array([len(passage.parts[0])])


def test_a_cache_scores_repeated_pairs_once_and_progress_counts_them_all(tmp_path):
    """Passages with the same characters and other titles are distinct."""
    one, other = Passage("a", "b c"), Passage("a b", "c")
    titles, seen = Titles(), []
    reranker = CachedReranker(titles, tmp_path / "scores")
    reranker.on_progress = seen.append
    pairs = [("q", one), ("q", other), ("q", one), ("r", one)]
    scores, computed = score_pairs_counted(reranker, pairs)
    assert (scores.tolist(), computed) == ([1, 3, 1, 1], 3)
    assert titles.asked == [("q", one), ("q", other), ("r", one)]
    assert sum(seen) == 4


@pytest.mark.parametrize(
    ("reranker", "word"),
    [
        *((Fixed(scores), "one number") for scores in ([1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0, None)),
        *((Fixed([0.0, bad]), "Austen") for bad in (float("nan"), float("inf"))),
        (InParts((np.array([0]), np.array([1.0]))), "1 of 2"),
        (InParts((np.array([0, 1]), np.array([1.0, np.nan]))), "Austen"),
    ],
)
def test_wrong_scores_are_refused(reranker, word):
    with pytest.raises(TourError, match=word):
        list(score_parts(reranker, PAIRS))
    if isinstance(reranker, Fixed):
        with pytest.raises(TourError, match=word):
            score_pairs(reranker, PAIRS)
