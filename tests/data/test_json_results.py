"""Retrieval results as JSON, and predicted answers."""

import io
import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import ScoredDoc

from tour_pyserini.data.json_results import read_dpr_json, read_predictions, write_dpr_json, write_predictions
from tour_pyserini.data.texts import Passage
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.errors import TourError

QUESTIONS = [Question("q1", "who?", ["Bö", "A"]), Question("q2", "why", [])]
RETRIEVED = {"q1": [ScoredDoc("q1", "d2", 2.5), ScoredDoc("q1", "d1", -1.0)], "q2": []}
TEXTS = {"d1": Passage("", "a\nb"), "d2": Passage("Title", "Bö")}
FIRST, SECOND = {"question": "who?", "answers": ["Bö", "A"]}, {"question": "why", "answers": []}
CONTEXTS = [
    {"docid": "d2", "score": "2.5", "text": "Title\nBö", "has_answer": True},
    {"docid": "d1", "score": "-1.0", "text": "\na b", "has_answer": False},
]
CTXS = [
    {"id": "d2", "title": "Title", "text": "Bö", "score": "2.5", "has_answer": True},
    {"id": "d1", "title": "", "text": "a b", "score": "-1.0", "has_answer": False},
]
WRITTEN = {
    "pyserini": {"q1": {**FIRST, "contexts": CONTEXTS}, "q2": {**SECOND, "contexts": []}},
    "dpr": [{"id": "q1", **FIRST, "ctxs": CTXS}, {"id": "q2", **SECOND, "ctxs": []}],
}


@pytest.mark.parametrize("layout", WRITTEN)
def test_layouts_are_written_and_read_back(tmp_path, layout):
    path = tmp_path / "r.json"
    write_dpr_json(path, QUESTIONS, RETRIEVED, TEXTS, {"q1": {"d2"}, "q2": set()}, layout=layout)
    assert json.loads(path.read_text()) == WRITTEN[layout]
    assert read_questions(path) == QUESTIONS and list(read_dpr_json(path)) == RETRIEVED["q1"]


@pytest.mark.parametrize("layout", WRITTEN)
@settings(deadline=None)
@given(scores=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_scores_are_not_rounded(tmp_path_factory, layout, scores):
    path = tmp_path_factory.mktemp("j") / "r.json"
    hits = [ScoredDoc("q", f"d{position}", score) for position, score in enumerate(scores)]
    texts = {hit.doc_id: "text" for hit in hits}
    write_dpr_json(path, [Question("q", "w", [])], {"q": hits}, texts, {"q": set()}, layout=layout)
    assert list(read_dpr_json(path)) == hits


def test_questions_without_ids_are_numbered(tmp_path):
    (tmp_path / "r.json").write_text('[{"question": "w", "ctxs": []}, {"ctxs": [{"id": "wiki:7", "score": 3}]}]')
    assert list(read_dpr_json(tmp_path / "r.json")) == [ScoredDoc("1", "wiki:7", 3.0)]


def test_predictions_are_written_and_read_best_first(tmp_path):
    file = io.StringIO()
    hits = [SimpleNamespace(text=text, score=score, docid="d", begin=1, end=4) for text, score in (("a", 1), ("b", 3))]
    write_predictions(file, "q1", hits)
    assert json.loads(file.getvalue().splitlines()[0]) == {
        **{"qid": "q1", "answer": "a", "score": 1, "passage": "d", "span": [1, 4]}
    }
    (tmp_path / "p").write_text(file.getvalue())
    assert read_predictions(tmp_path / "p") == {"q1": ["b", "a"]}
    (tmp_path / "p").write_text('{"qid": 1, "answer": "x"}\n{"qid": 1, "answer": "y"}\n')
    assert read_predictions(tmp_path / "p") == {"1": ["x", "y"]}


@pytest.mark.parametrize(
    ("read", "text", "word"),
    [
        (read_dpr_json, '{"a": {"ctxs": []}}', "question 'a' .*`contexts`"),
        (read_dpr_json, '{"a b": {"contexts": [{"docid": "d", "score": 1}]}}', "'a b'"),
        (read_dpr_json, '{"a": {"contexts": [{"docid": "d", "score": "high"}]}}', r"context \[0\] .*'high'"),
        (read_predictions, '{"qid": 1, "answer": "x"}\n{"answer": "x"}', "line 2 .*`qid`"),
        (read_predictions, '{"qid": 1, "answer": "x", "score": "high"}', "'high'"),
        (read_predictions, "", "no predictions"),
    ],
)
def test_refusals(tmp_path, read, text, word):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(TourError, match=rf"r\.json.*{word}"):
        list(read(tmp_path / "r.json"))
