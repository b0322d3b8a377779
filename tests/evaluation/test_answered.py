"""Judged queries for which a run has no hits."""

import logging

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.comparison import compare
from tour_pyserini.evaluation.tables import means_table


@pytest.fixture
def files(tmp_path):
    queries = [f"q{at}" for at in range(5)]
    (tmp_path / "qrels").write_text("".join(f"{query} 0 a 1\n" for query in queries))
    for name, kept in {"all": queries, "some": [*queries[1:3], "q9"], "other": ["q8", "q9"]}.items():
        (tmp_path / name).write_text("".join(f"{query} Q0 a 1 1.0 t\n" for query in kept))
    return tmp_path


def rows(files, *runs):
    return compare(files / "qrels", [files / run for run in runs], ["RR"])


def test_a_warning_counts_the_judged_queries_with_hits(files, caplog):
    with caplog.at_level(logging.WARNING):
        every, some = rows(files, "all", "some")
    assert caplog.messages == [f"{files / 'some'} has hits for 2 of the 5 judged queries; the others count as 0"]
    assert every.answered.all()
    assert np.array_equal(some.answered, [False, True, True, False, False])  # q9 is not judged
    assert some.means == {"RR": 2 / 5}


def test_a_column_shows_them_if_any_run_misses_some(files, caplog):
    costs = ["labels/query", "updates/query"]
    assert means_table(rows(files, "all", "some")).cells == [
        ["run", "answered", "RR", *costs],
        ["all", "5", "1.0000", "-", "-"],
        ["some", "2", "0.4000", "-", "-"],
    ]
    caplog.clear()
    assert means_table(rows(files, "all")).cells == [["run", "RR", *costs], ["all", "1.0000", "-", "-"]]
    assert not caplog.messages


def test_a_run_of_other_queries_is_refused(files):
    with pytest.raises(TourError) as refused:
        rows(files, "all", "other")
    assert str(refused.value).startswith(f"{files / 'other'} and {files / 'qrels'} have no query in common; ")
