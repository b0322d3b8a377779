"""Query paths from traces, as text and as a picture."""

import json
import math

import matplotlib
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.path_picture import draw
from tour_pyserini.evaluation.query_path import FinalHit, as_text, most_improved_query, read_final_list, read_paths

LINES = [
    {"qid": "q1", "docids": ["a", "b"], "similarities": [0.9, 0.8], "labels": [0.0, 5.0], "labelled": ["a", "b"],
     "cosine": 1.0, "stop": None},
    {"qid": "q1", "docids": ["b", "c"], "similarities": [0.9, None], "labels": [5.0, None], "labelled": [],
     "cosine": 0.9, "stop": "agreement"},
    {"qid": "q2", "docids": ["c"], "similarities": [0.5], "labels": [None], "labelled": [], "cosine": 1.0,
     "stop": "rounds"},
]  # fmt: skip


def write_trace(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_paths_by_hand(tmp_path):
    paths = read_paths(write_trace(tmp_path / "trace", LINES))
    assert list(paths) == ["q1", "q2"]
    first, second = paths["q1"]
    assert (first.docids, first.labels, first.labelled) == (["a", "b"], [0.0, 5.0], ["a", "b"])
    assert (first.cosine, first.stop_reason, first.query) == (1.0, None, None)
    assert second.labels[0] == 5.0 and math.isnan(second.labels[1])
    assert (second.similarities, second.stop_reason) == ([0.9, None], "agreement")
    (only,) = paths["q2"]
    assert math.isnan(only.labels[0]) and only.stop_reason == "rounds"


def test_a_line_that_lacks_a_field_is_refused_with_its_number(tmp_path):
    for name in LINES[1]:
        damaged = {key: value for key, value in LINES[1].items() if key != name}
        with pytest.raises(TourError, match=r"trace, line 2 is not a line of a trace"):
            read_paths(write_trace(tmp_path / "trace", [LINES[0], damaged]))


def test_a_query_path_as_text_and_as_a_picture(tmp_path):
    paths = read_paths(write_trace(tmp_path / "trace", LINES))
    assert most_improved_query(paths, {"q1": {"b"}, "q2": {"c"}}) == "q1"
    texts = {"a": "A", "b": "B", "c": "C", "d": "D"}
    lines = as_text(paths["q1"], "why", texts, {"b"}).splitlines()
    assert lines[0] == "query: why"
    assert lines[1].startswith("t = 0")
    assert lines[3].split()[:3] == ["2.", "*", "b"]
    assert lines[-1].split()[:3] == ["2.", "+", "c"]
    (tmp_path / "run").write_text("q1 Q0 c 1 1.5 t\nq1 Q0 b 2 2.5 t\nq1 Q0 d 3 0.5 t\nq2 Q0 a 1 1 t\n")
    final = read_final_list(tmp_path / "run", "q1", paths["q1"])
    assert [(hit.docid, hit.score) for hit in final] == [("b", 2.5), ("c", 1.5), ("d", 0.5)]
    assert final[0].label == 5.0 and math.isnan(final[1].label)
    more = as_text(paths["q1"], "why", texts, {"b"}, final=final, shown=3).splitlines()
    assert [line.split()[:-1] for line in more[-3:]] == [
        ["1.", "*", "b", "2.50"],
        ["2.", "c", "1.50"],
        ["3.", "+", "d", "0.50"],
    ]
    with pytest.raises(TourError, match="no hits of the query 'q3'"):
        read_final_list(tmp_path / "run", "q3", [])
    draw(paths["q1"], "why", texts, {"b"}, tmp_path / "path.png", final=final)
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_has_the_words_of_passages_the_final_list_and_a_legend(tmp_path):
    paths = read_paths(write_trace(tmp_path / "trace", LINES))
    texts = {"a": "apples " * 20, "b": "brown bread", "c": "cold coffee"}
    final = [FinalHit("b", 2.0, 5.0), FinalHit("c", 1.0, float("nan"))]
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # words stay words
        draw(paths["q1"], "why", texts, {"b"}, tmp_path / "path.svg", final=final)
    picture = (tmp_path / "path.svg").read_text()
    for words in ("Query: why", "first retrieval", "after 1 update", "stops: agreement", "final list", "brown bread"):
        assert words in picture, words
    assert picture.count("apples apples apples apples apples") == 2 and "apples ..." in picture
    assert picture.count("brown bread") == 3 and picture.count("cold coffee") == 2
    assert "judged relevant" in picture and "5.0" in picture


@pytest.mark.parametrize(
    "change",
    [
        {"qid": ["1"]},
        {"docids": [["a"], "b"]},
        {"docids": "ab"},
        {"labelled": [1]},
        {"similarities": ["x", 1]},
        {"cosine": "1"},
        {"stop": 3},
        {"query": ["x"]},
        {"labels": [1, []]},
    ],
)
def test_a_value_of_another_type_is_refused_with_its_line(tmp_path, change):
    line = {
        "qid": "1",
        "docids": ["a"],
        "similarities": [1],
        "labels": [1],
        "labelled": ["a"],
        "cosine": 1,
        "stop": None,
    }
    trace = tmp_path / "trace.jsonl"
    trace.write_text(json.dumps(line) + "\n" + json.dumps(line | change) + "\n")
    with pytest.raises(TourError, match=r"trace\.jsonl.*2.*is not a line of a trace"):
        read_paths(trace)
