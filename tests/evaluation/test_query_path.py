"""Query paths from traces, as text and as a picture."""

import json

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.query_path import QueryPath

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


@pytest.fixture
def files(tmp_path):
    """The files that a path is read from, by argument."""
    (tmp_path / "topics.tsv").write_text("q1\twhy\nq2\twho\n")
    (tmp_path / "qrels").write_text("q1 0 b 1\nq1 0 a 0\nq2 0 c 1\n")
    (tmp_path / "run").write_text("q1 Q0 c 1 1.5 t\nq1 Q0 b 2 2.5 t\nq1 Q0 d 3 0.5 t\n")
    (tmp_path / "corpus.jsonl").write_text("".join(f'{{"_id": "{id_}", "text": "{id_.upper()}"}}\n' for id_ in "abcd"))
    trace = write_trace(tmp_path / "trace.jsonl", LINES)
    names = {"topics": "topics.tsv", "corpus": "corpus.jsonl", "qrels": "qrels", "run": "run"}
    return {"trace": trace, **{name: tmp_path / file for name, file in names.items()}}


def test_paths_by_hand_and_as_text(files):
    path = QueryPath.read(**files)
    assert (path.qid, path.query, path.relevant) == ("q1", "why", {"b"})  # c of q2 was always first
    first, second = path.rounds
    assert (first.docids, first.labels, first.cosine, first.stop, first.query) == (["a", "b"], [0, 5], 1, None, None)
    assert (second.labels, second.similarities, second.stop) == ([5, None], [0.9, None], "agreement")
    assert path.final == [("b", 2.5), ("c", 1.5), ("d", 0.5)] and path.labels == {"a": 0, "b": 5}
    lines = [line.split() for line in path.as_text(shown=2).splitlines()]
    assert lines[0] == ["query:", "why"] and lines[1][:3] == ["t", "=", "0"]
    assert lines[2:4] == [["1.", "a", "0.00", "A"], ["2.", "*", "b", "5.00", "B"]]
    assert lines[5:7] == [["1.", "*", "b", "5.00", "B"], ["2.", "+", "c", "-", "C"]]
    assert lines[8:] == [["1.", "*", "b", "2.50", "B"], ["2.", "c", "1.50", "C"]]


@pytest.mark.parametrize(
    ("file", "content", "topic", "message"),
    [
        ("run", "q1 Q0 a 1 1.5 t\n", "q2", "no hits of the query 'q2'"),
        ("topics", "q2\twho\n", None, "no query 'q1', which the trace has"),
        ("topics", "q2\twho\n", "q3", "no query 'q3'; choose another"),
        ("trace", "", None, "is empty"),
        ("trace", '{"qid": 1}', None, "line 1 is not a line of a trace"),
    ],
)
def test_files_that_do_not_fit_are_refused(files, file, content, topic, message):
    files[file].write_text(content)
    with pytest.raises(TourError, match=message):
        QueryPath.read(**files, topic=topic)
