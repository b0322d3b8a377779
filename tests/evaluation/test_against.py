from pathlib import Path

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.comparison import baseline_position, compare, compare_with_baseline
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import gains, outcomes


def row(name, **values):
    arrays = {measure: np.array(each, dtype=float) for measure, each in values.items()}
    means = {measure: each.mean() for measure, each in arrays.items()}
    answered = np.ones_like(next(iter(arrays.values())), dtype=bool)
    return MeasuredRun(name, Path(name), arrays, means, answered, None)


def test_outcomes_by_hand():
    gained = gains(np.array([0.5, 0.3, 0.2, 0.1 + 0.2]), np.array([0.4, 0.4, 0.2 + 9e-10, 0.3]))
    assert gained.tolist() == [pytest.approx(0.1), pytest.approx(-0.1), 0, 0]
    assert outcomes(gained) == (1, 2, 1)


def test_every_run_and_measure_by_hand():
    base = row("base", RR=[0, 0, 0, 1], P=[0.5, 0.5, 0.5, 0.5])
    one = row("one", RR=[1, 1, 1, 1], P=[0.5, 0.5, 0.5, 0.5])
    two = row("two", RR=[0, 0, 0, 0], P=[1, 1, 1, 0])
    found = compare_with_baseline(base, [one, two])
    assert [(each.run, each.measure) for each in found] == [("one", "RR"), ("one", "P"), ("two", "RR"), ("two", "P")]
    assert [each.difference for each in found] == [0.75, 0, -0.25, 0.25]
    assert [tuple(each.outcomes) for each in found] == [(3, 1, 0), (0, 4, 0), (0, 3, 1), (3, 0, 1)]
    assert [each.p for each in found] == [0.25, 1, 1, 10 / 16]
    assert [each.adjusted for each in found] == [1, 1, 1, 1]  # 4 x 0.25, and never above 1


def test_a_query_without_hits_counts_as_nought(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 t\nq9 Q0 a 1 2.0 t\n")  # q9 is not judged
    (found,) = compare(tmp_path / "qrels", [tmp_path / "run"], ["RR"])
    assert found.values["RR"].tolist() == [1, 0]
    assert found.means["RR"] == 0.5


def test_counts_are_summed(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 t\nq2 Q0 a 1 2.0 t\n")
    (found,) = compare(tmp_path / "qrels", [tmp_path / "run"], ["NumRet"])
    assert found.means["NumRet"] == 2


def test_names_that_repeat_are_paths(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run").write_text("q1 Q0 a 1 2.0 t\n")
    (tmp_path / "qrels").write_text("q1 0 a 1\n")
    runs = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    assert [each.name for each in compare(tmp_path / "qrels", runs, ["RR"])] == list(map(str, runs))


def test_the_baseline_is_found_however_it_is_written(tmp_path):
    assert baseline_position(tmp_path / "x" / ".." / "b", [tmp_path / "a", tmp_path / "b"]) == 1


@pytest.mark.parametrize(
    ("baseline", "runs", "says"),
    [("c", ["a", "b"], "not among the runs"), ("a", ["a", "./a"], "given twice"), ("a", ["a"], "the only run")],
)
def test_no_such_baseline(baseline, runs, says):
    with pytest.raises(TourError, match=says):
        baseline_position(baseline, runs)
