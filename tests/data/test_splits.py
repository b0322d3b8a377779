import json

import pytest

from tour_pyserini.data.judgements import read_splits
from tour_pyserini.errors import TourError

TOPICS = ["q7", "q3", "q5"]


def read(tmp_path, *lines, topics=TOPICS):
    path = tmp_path / "splits"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return read_splits(path, judged=["q3", "q5"], topics=topics)


def test_published_annotations_give_positions_of_topics(tmp_path):
    splits = read(
        tmp_path,
        {"id": 0, "labels": ["total", "no_overlap", "mine"]},
        {"id": 2, "labels": ["answer_overlap", "total"]},
        {"id": 1, "labels": ["total", "question_overlap", "answer_overlap"], "more": [1]},
    )
    assert splits == {
        "total": {"q7", "q5", "q3"},
        "question_overlap": {"q3"},
        "answer_overlap": {"q5", "q3"},
        "no_overlap": {"q7"},
        "mine": {"q7"},
    }
    assert list(splits) == ["total", "question_overlap", "answer_overlap", "no_overlap", "mine"]


@pytest.mark.parametrize(
    "lines",
    [
        [{"qid": "q3", "split": "old"}, {"qid": "q5", "split": "new"}],
        ["q3\told", "q5\tnew"],
        ["qid\tsplit", "q3\told", "q5\tnew"],
        [{"qid": "q3", "labels": ["old"]}, "q5\tnew"],
    ],
)
def test_plain_lists_need_no_topics(tmp_path, lines):
    assert read(tmp_path, *lines, topics=None) == {"old": {"q3"}, "new": {"q5"}}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"id": 3, "labels": ["total"]}, "the id 3, but the 3 topics"),
        ({"id": -1, "labels": ["total"]}, "the id -1"),
        ({"id": True, "labels": ["total"]}, "whole number"),
        ({"id": "0", "labels": ["total"]}, "whole number"),
        ({"labels": ["total"]}, "neither a `qid`"),
        ({"id": 1}, "has no `labels`"),
        ({"id": 1, "labels": [1]}, "has no `labels`"),
        ({"id": 1, "labels": {"a": 1}}, "has no `labels`"),
        ({"qid": "q9", "split": "old"}, "'q9', which is not in the topics"),
        ({"id": 0, "labels": ["total"]}, "'q7' into 'total' a second time"),
        ("{not json", "is not JSON"),
        ("q3 old", "is not an annotation"),
        ("q3\t", "is not an annotation"),
        ("[1, 2]", "is not an annotation"),
    ],
)
def test_the_error_names_the_wrong_line(tmp_path, line, says):
    with pytest.raises(TourError, match="splits, line 2 ") as refused:
        read(tmp_path, {"id": 0, "labels": ["total"]}, line)
    assert says in str(refused.value)


def test_positions_and_unjudged_queries_need_topics(tmp_path):
    with pytest.raises(TourError, match=r"line 1 gives the position of a question in the topics file; .* --topics"):
        read(tmp_path, {"id": 0, "labels": ["total"]}, topics=None)
    with pytest.raises(TourError, match=r"line 1 names the query 'q7', which is not in the judgements"):
        read(tmp_path, "q7\told", topics=None)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(TourError, match="puts no query into a split"):
        read(tmp_path)
