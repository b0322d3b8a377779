"""Judgements."""

import pytest
from ir_measures import Qrel

from tour_pyserini.data.judgements import read_qrels, write_qrels
from tour_pyserini.errors import TourError


@pytest.mark.parametrize(
    "content",
    [
        "q1 0 a 1\nq1\t0\tb\t-2\n",
        "query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t-2\n",
        "# judged by hand\nq1 0 a 1\n\n  # again\nq1 0 b -2\n",
    ],
)
def test_judgements_are_read_and_written_back(tmp_path, content):
    (tmp_path / "qrels").write_text(content)
    qrels = read_qrels(tmp_path / "qrels")
    assert qrels == [Qrel("q1", "a", 1), Qrel("q1", "b", -2)]
    write_qrels(qrels, tmp_path / "again")
    assert (tmp_path / "again").read_text() == "q1 0 a 1\nq1 0 b -2\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("q1 b 1", "not a judgement"),
        ("q1 0 b 1 x", "not a judgement"),
        ("q1 0 b 1.5", "grade '1.5'"),
        ("q1 0 b 2147483648", "32 bits"),
        ("q1 0 b " + "1" * 5000, "32 bits"),
        ("q1 0 a 0", "second time"),
    ],
)
def test_the_error_names_the_wrong_line(tmp_path, line, says):
    (tmp_path / "qrels").write_text(f"# one\nq1 0 a 1\n{line}\n")
    with pytest.raises(TourError, match=rf"qrels, line 3 .*{says}"):
        read_qrels(tmp_path / "qrels")
    (tmp_path / "qrels").write_text("# nothing\n")
    with pytest.raises(TourError, match="no judgements"):
        read_qrels(tmp_path / "qrels")
