import logging
from pathlib import Path

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.comparison import baseline_position, compare, compare_with_baseline
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.tables import means_table


def run(name, **values):
    arrays = {measure: np.array(each, dtype=float) for measure, each in values.items()}
    means = {measure: each.mean() for measure, each in arrays.items()}
    answered = np.ones_like(next(iter(arrays.values())), dtype=bool)
    return MeasuredRun(name, Path(name), arrays, means, answered, None)


def test_comparisons_with_a_baseline_by_hand():
    base = run("base", RR=[0, 0, 0, 1], P=[0.5, 0.5, 0.5, 0.5])
    one = run("one", RR=[1, 1, 1, 1], P=[0.5, 0.5, 0.5, 0.5])
    two = run("two", RR=[0, 0, 0, 0], P=[1, 1, 1, 0])
    found = compare_with_baseline(base, [one, two])
    assert [(each.run, each.measure) for each in found] == [("one", "RR"), ("one", "P"), ("two", "RR"), ("two", "P")]
    assert [each.difference for each in found] == [0.75, 0, -0.25, 0.25]
    assert [tuple(each.outcomes) for each in found] == [(3, 1, 0), (0, 4, 0), (0, 3, 1), (3, 0, 1)]
    assert [each.p for each in found] == [0.25, 1, 1, 10 / 16]
    assert [each.adjusted for each in found] == [1, 1, 1, 1]  # 4 x 0.25, and never above 1


def test_a_query_without_hits_counts_as_0(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 t\nq9 Q0 a 1 2.0 t\n")  # q9 is not judged
    (found,) = compare(tmp_path / "qrels", [tmp_path / "run"], ["RR"])
    assert found.values["RR"].tolist() == [1, 0]
    assert found.means["RR"] == 0.5


def test_measures_that_count_are_summed(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 t\nq2 Q0 a 1 2.0 t\n")
    (found,) = compare(tmp_path / "qrels", [tmp_path / "run"], ["NumRet"])
    assert found.means["NumRet"] == 2


def test_runs_with_the_same_name_are_named_by_path(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run").write_text("q1 Q0 a 1 2.0 t\n")
    (tmp_path / "qrels").write_text("q1 0 a 1\n")
    runs = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    assert [each.name for each in compare(tmp_path / "qrels", runs, ["RR"])] == list(map(str, runs))


def test_the_baseline_is_found_by_any_path_to_it(tmp_path):
    assert baseline_position(tmp_path / "x" / ".." / "b", [tmp_path / "a", tmp_path / "b"]) == 1


@pytest.mark.parametrize(
    ("baseline", "runs", "message"),
    [("c", ["a", "b"], "not among the runs"), ("a", ["a", "./a"], "given twice"), ("a", ["a"], "the only run")],
)
def test_a_baseline_that_cannot_be_compared_with_is_refused(baseline, runs, message):
    with pytest.raises(TourError, match=message):
        baseline_position(baseline, runs)


@pytest.fixture
def files(tmp_path):
    queries = [f"q{number}" for number in range(5)]
    (tmp_path / "qrels").write_text("".join(f"{query} 0 a 1\n" for query in queries))
    for name, kept in {"all": queries, "some": [*queries[1:3], "q9"], "other": ["q8", "q9"]}.items():
        (tmp_path / name).write_text("".join(f"{query} Q0 a 1 1.0 t\n" for query in kept))
    return tmp_path


def compared(files, *runs):
    return compare(files / "qrels", [files / run for run in runs], ["RR"])


def test_a_warning_counts_the_judged_queries_with_hits(files, caplog):
    with caplog.at_level(logging.WARNING):
        every, some = compared(files, "all", "some")
    assert caplog.messages == [f"{files / 'some'} has hits for 2 of the 5 judged queries; the others count as 0"]
    assert every.answered.all()
    assert np.array_equal(some.answered, [False, True, True, False, False])  # q9 is not judged
    assert some.means == {"RR": 2 / 5}


def test_the_table_counts_queries_with_hits_if_a_run_lacks_some(files, caplog):
    costs = ["labels/query", "updates/query"]
    assert means_table(compared(files, "all", "some")).cells == [
        ["run", "answered", "RR", *costs],
        ["all", "5", "1.0000", "-", "-"],
        ["some", "2", "0.4000", "-", "-"],
    ]
    caplog.clear()
    assert means_table(compared(files, "all")).cells == [["run", "RR", *costs], ["all", "1.0000", "-", "-"]]
    assert not caplog.messages


def test_a_run_of_other_queries_is_refused(files):
    with pytest.raises(TourError) as refused:
        compared(files, "all", "other")
    assert str(refused.value).startswith(f"{files / 'other'} and {files / 'qrels'} have no query in common; ")
