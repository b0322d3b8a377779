import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data.predictions import read_predictions
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_measures import AnswerScorer, exact_match, f1, normalise
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.tables import as_text, means_table


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
    assert f1(predicted, gold) == pytest.approx(overlap)


@given(st.text("abc. the", max_size=12), st.lists(st.text("abc. the", max_size=12), max_size=3))
def test_f1_is_between_exact_match_and_1(predicted, gold):
    assert exact_match(predicted, gold) <= f1(predicted, gold) <= 1
    assert normalise(normalise(predicted)) == normalise(predicted)


def test_a_question_without_predictions_has_value_0():
    scorer = AnswerScorer(["EM@1", "F1@1"], [Question("q1", "w", ["y"]), Question("q2", "w", ["z"])])
    values = scorer.values({"q1": ["x", "y"]})
    assert {name: list(each) for name, each in values.items()} == {"EM@1": [0, 0], "F1@1": [0, 0]}


def test_regular_expressions_match_at_the_beginning_of_predictions():
    questions = [Question("q1", "w", ["19[0-9]1"]), Question("q2", "w", ["(", "Ann( Lee)?"])]
    scorer = AnswerScorer(["EM@1", "EM@2"], questions, regex=True)
    values = scorer.values({"q1": ["in 1901", "1901"], "q2": ["ANN LEE"]})
    assert {name: list(each) for name, each in values.items()} == {"EM@1": [0, 1], "EM@2": [1, 1]}
    with pytest.raises(TourError, match="F1@1 compares words"):
        AnswerScorer(["EM@1", "F1@1"], questions, regex=True)


QUESTIONS = [Question("q1", "w", ["red green"]), Question("q2", "w", ["x"]), Question("q3", "w", ["y"])]
PREDICTIONS = {"q1": ["blue green", "Red, green"], "q2": ["The X"]}


def test_cutoffs_and_means():
    scorer = AnswerScorer(["EM@1", "F1@1", "EM@2"], QUESTIONS)
    values = scorer.values(PREDICTIONS)
    assert {name: list(each) for name, each in values.items()} == {
        "EM@1": [0, 1, 0],
        "F1@1": [0.5, 1, 0],
        "EM@2": [1, 1, 0],
    }
    assert scorer.aggregate("F1@1", values["F1@1"]) == 0.5
    assert math.isnan(scorer.aggregate("F1@1", np.array([])))


def test_metrics_have_the_form_of_ir_measures():
    metrics = list(AnswerScorer(["EM@1"], QUESTIONS).iter_calc(PREDICTIONS))
    assert [(one.query_id, str(one.measure), one.value) for one in metrics] == [
        ("q1", "EM@1", 0.0),
        ("q2", "EM@1", 1.0),
        ("q3", "EM@1", 0.0),
    ]


def test_measures_of_answers_are_shown_in_the_table_of_runs(tmp_path):
    scorer = AnswerScorer(["EM@1", "F1@1"], QUESTIONS)
    values = scorer.values(PREDICTIONS)
    means = {name: scorer.aggregate(name, each) for name, each in values.items()}
    table = as_text(means_table([MeasuredRun("reader", tmp_path, values, means, values["EM@1"] >= 0, None)]))
    assert table.splitlines()[0].split()[:3] == ["run", "EM@1", "F1@1"]
    assert table.splitlines()[1].split()[:3] == ["reader", "0.3333", "0.5000"]


def test_unknown_questions_and_measures_are_refused():
    with pytest.raises(TourError, match="a prediction for 'q9'"):
        AnswerScorer(["EM@1"], QUESTIONS).values({"q9": ["x"]})
    for name in ("EM", "EM@0", "nDCG@10"):
        with pytest.raises(TourError, match=f"no measure '{name}'"):
            AnswerScorer([name], QUESTIONS)


def write(tmp_path, *lines):
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "p.jsonl"


def test_predictions_are_in_the_order_of_scores_then_of_lines(tmp_path):
    lines = [
        f'{{"qid": {qid}, "answer": "{a}", "score": {s}}}' for qid, a, s in ((1, "a", 1), (1, "b", 2), (1, "c", 1))
    ]
    assert read_predictions(write(tmp_path, *lines)) == {"1": ["b", "a", "c"]}
    assert read_predictions(write(tmp_path, '{"qid": "q", "answer": "z"}', '{"qid": "q", "answer": "a"}')) == {
        "q": ["z", "a"]
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"answer": "a", "score": 1}', "has no question id"),
        ('{"qid": "q", "answer": ["a"], "score": 1}', "has no string `answer`"),
        ('{"qid": "q", "answer": "a"}', "has the score None"),
        ('{"qid": "q", "answer": "a", "score": "1"}', "has the score '1'"),
        ('{"qid": "q", "answer": "a", "score": NaN}', "has the score nan"),
        ('{"qid": "q", "answer": "a", "score": 1' + "0" * 400 + "}", "has the score 1000"),
    ],
)
def test_malformed_predictions_are_named(tmp_path, line, message):
    with pytest.raises(TourError, match=r"p\.jsonl, line 2 " + message.replace("[", r"\[")):
        read_predictions(write(tmp_path, '{"qid": "q", "answer": "a", "score": 1}', line))


def test_either_all_predictions_have_scores_or_none(tmp_path):
    with pytest.raises(TourError, match="line 2 has a score, but the lines before it have none"):
        read_predictions(write(tmp_path, '{"qid": "q", "answer": "a"}', '{"qid": "q", "answer": "a", "score": 1}'))
    with pytest.raises(TourError, match="holds no predictions"):
        read_predictions(write(tmp_path))
