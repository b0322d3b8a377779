import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import Qrel, ScoredDoc

from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answer_means, answer_values, exact_match
from tour_pyserini.evaluation.measures import Scorer


@pytest.mark.parametrize(
    ("predicted", "gold", "em", "overlap"),
    [
        ("The Beatles!", ["beatles"], 1, 1),
        ("red green", ["green blue"], 0, 0.5),
        ("red red", ["red"], 0, 2 / 3),  # 1 of 2 words, all of 1
        ("red red", ["red red blue"], 0, 0.8),
        ("x", ["y", "x"], 1, 1),
        ("one two", ["one", "one two three four"], 0, 2 / 3),
        ("a theme", ["theme"], 1, 1),  # not an article: part of a word
        ("U.S.", ["us"], 1, 1),
        ("café", ["cafe"], 0, 0),
        ("the", ["a"], 1, 1),  # both are empty after normalisation
        ("the", ["x"], 0, 0),
        ("", [], 1, 1),
        ("x", [], 0, 0),
    ],
)
def test_exact_match_and_f1_by_hand(predicted, gold, em, overlap):
    assert exact_match(predicted, gold) == em
    assert answer_means([predicted], [gold]) == {"EM": em, "F1": pytest.approx(overlap)}


@given(st.text("abc. the", max_size=12), st.lists(st.text("abc. the", max_size=12), max_size=3))
def test_f1_is_between_exact_match_and_1(predicted, gold):
    assert exact_match(predicted, gold) <= answer_means([predicted], [gold])["F1"] <= 1


QUESTIONS = [Question("q1", "w", ["red green"]), Question("q2", "w", ["x"]), Question("q3", "w", ["y"])]
PREDICTIONS = {"q1": ["blue green", "Red, green"], "q2": ["The X"]}
PATTERNS = [Question("q1", "w", ["19[0-9]1"]), Question("q2", "w", ["(", "Ann( Lee)?"])]


@pytest.mark.parametrize(
    ("questions", "predictions", "regex", "expected"),
    [
        (QUESTIONS, PREDICTIONS, False, {"EM@1": [0, 1, 0], "F1@1": [0.5, 1, 0], "EM@2": [1, 1, 0]}),
        # Regular expressions match at the beginning.
        (PATTERNS, {"q1": ["in 1901", "1901"], "q2": ["ANN LEE"]}, True, {"EM@1": [0, 1], "EM@2": [1, 1]}),
    ],
)
def test_cutoffs_by_hand(questions, predictions, regex, expected):
    found = answer_values(expected, questions, predictions, regex=regex)
    assert {name: each.tolist() for name, each in found.items()} == expected


def test_answers_are_measured_beside_runs_in_the_order_given(caplog):
    qrels = [Qrel("q1", "a", 1), Qrel("q2", "a", 1)]
    scorer = Scorer(["EM@1", "RR", "F1@1"], qrels, QUESTIONS)
    run = [ScoredDoc("q1", "a", 1.0)]
    values = scorer.values(run, {**PREDICTIONS, "q3": ["y"]})
    assert {name: each.tolist() for name, each in values.items()} == {"EM@1": [0, 1], "RR": [1, 0], "F1@1": [0.5, 1]}
    assert math.isnan(scorer.aggregate("F1@1", np.array([]))) and not caplog.messages
    assert scorer.values(run, {"q2": ["x"]})["EM@1"].tolist() == [0, 1] and "1 of the 2 judged" in caplog.text
    for predicted, says in (({"q9": ["x"]}, "'q9'"), ({"q3": ["y"]}, "no prediction")):
        with pytest.raises(TourError, match=says):
            scorer.values(run, predicted)
    with pytest.raises(TourError, match="'q1'"):
        Scorer(["RR", "EM@1"], qrels, QUESTIONS[1:])
    with pytest.raises(TourError, match="words"):
        Scorer(["RR", "F1@1"], qrels, QUESTIONS, regex=True)
