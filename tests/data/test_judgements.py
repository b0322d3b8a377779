"""Judgements, and splits of judged queries."""

import json

import pytest
from ir_measures import Qrel

from tour_pyserini.data.judgements import read_qrels, read_splits, write_qrels
from tour_pyserini.errors import TourError

TOPICS = ["q7", "q3", "q5"]


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


def splits(tmp_path, *lines, topics=TOPICS):
    path = tmp_path / "splits"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return read_splits(path, judged=["q3", "q5"], topics=topics)


def test_published_annotations_give_positions_of_topics(tmp_path):
    found = splits(
        tmp_path,
        {"id": 0, "labels": ["total", "no_overlap", "mine"]},
        {"id": 2, "labels": ["answer_overlap", "total"]},
        {"id": 1, "labels": ["total", "question_overlap", "answer_overlap"], "more": [1]},
    )
    assert list(found) == ["total", "question_overlap", "answer_overlap", "no_overlap", "mine"]
    assert list(found.values()) == [{"q7", "q5", "q3"}, {"q3"}, {"q5", "q3"}, {"q7"}, {"q7"}]


def test_tables_need_no_topics(tmp_path):
    assert splits(tmp_path, "qid\tsplit", "q3\told", "q5\tnew", topics=None) == {"old": {"q3"}, "new": {"q5"}}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("q1 0 a 1\nq1 b 1", "line 2"),
        ("q1 0 a 1\nq1 0 b 1.5", "grade '1.5'"),
        ("q1 0 a 1\nq1 0 a 0", "second time"),
        ("# nothing", "no judgements"),
        ("q1\0a 0 a 1\nq1\0b 0 a 1", "line 1 .*NUL"),  # trec_eval's library takes them for one query, and aborts
    ],
)
def test_judgements_that_are_refused(tmp_path, content, word):
    (tmp_path / "qrels").write_text(f"{content}\n")
    with pytest.raises(TourError, match=word):
        read_qrels(tmp_path / "qrels")


@pytest.mark.parametrize(
    ("line", "topics", "word"),
    [
        ({"id": 3, "labels": ["total"]}, TOPICS, "line 1 .*id 3"),
        ("q9\told", TOPICS, "'q9'"),
        ({"id": 0, "labels": ["total"]}, None, "--topics"),
        ("q3 old", TOPICS, "annotation"),
        ("", TOPICS, "no query"),
    ],
)
def test_splits_that_are_refused(tmp_path, line, topics, word):
    with pytest.raises(TourError, match=word):
        splits(tmp_path, line, topics=topics)
