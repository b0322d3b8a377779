"""Query paths from traces, as text and as a picture."""

import json
import math

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.query_path import as_text, most_improved_query, read_final_list, read_paths

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


def test_a_query_path_as_text(tmp_path):
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


@pytest.mark.parametrize(
    "change",
    [
        *({name: None} for name in ("qid", "docids", "labels", "labelled")),
        *({"qid": ["1"]}, {"docids": [["a"], "b"]}, {"docids": "ab"}, {"labelled": [1]}, {"similarities": ["x", 1]}),
        *({"cosine": "1"}, {"stop": 3}, {"query": ["x"]}, {"labels": [1, []]}, {}),
    ],
    ids=str,
)
def test_a_wrong_or_missing_value_is_refused_with_its_line(tmp_path, change):
    damaged = LINES[0] | change if change else {"qid": "q1"}
    with pytest.raises(TourError, match="line 2 is not a line of a trace"):
        read_paths(write_trace(tmp_path / "trace.jsonl", [LINES[0], damaged]))
