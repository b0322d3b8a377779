import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import ScoredDoc

from tour_pyserini.data.json_results import read_dpr_json, write_dpr_json
from tour_pyserini.data.texts import Passage
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.errors import TourError

QUESTIONS = [Question("q1", "who?", ["Bö", "A"]), Question("q2", "why", [])]
RETRIEVED = {"q1": [ScoredDoc("q1", "d2", 2.5), ScoredDoc("q1", "d1", -1.0)], "q2": []}
TEXTS = {"d1": Passage("", "a\nb"), "d2": Passage("Title", "Bö")}


def written(tmp_path, layout):
    path = tmp_path / f"{layout}.json"
    write_dpr_json(path, QUESTIONS, RETRIEVED, TEXTS, {"q1": {"d2"}, "q2": set()}, layout=layout)
    return path


def test_pyserini_layout_is_written(tmp_path):
    contexts = [
        {"docid": "d2", "score": "2.5", "text": "Title\nBö", "has_answer": True},
        {"docid": "d1", "score": "-1.0", "text": "\na b", "has_answer": False},
    ]
    assert json.loads(written(tmp_path, "pyserini").read_text()) == {
        "q1": {"question": "who?", "answers": ["Bö", "A"], "contexts": contexts},
        "q2": {"question": "why", "answers": [], "contexts": []},
    }


def test_dpr_layout_is_written(tmp_path):
    ctxs = [
        {"id": "d2", "title": "Title", "text": "Bö", "score": "2.5", "has_answer": True},
        {"id": "d1", "title": "", "text": "a b", "score": "-1.0", "has_answer": False},
    ]
    path = written(tmp_path, "dpr")
    assert json.loads(path.read_text()) == [
        {"id": "q1", "question": "who?", "answers": ["Bö", "A"], "ctxs": ctxs},
        {"id": "q2", "question": "why", "answers": [], "ctxs": []},
    ]
    assert read_questions(path) == QUESTIONS


@pytest.mark.parametrize("layout", ["pyserini", "dpr"])
def test_written_hits_are_read_back(tmp_path, layout):
    assert list(read_dpr_json(written(tmp_path, layout))) == RETRIEVED["q1"]


@pytest.mark.parametrize("layout", ["pyserini", "dpr"])
@given(scores=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_scores_are_not_rounded(tmp_path_factory, layout, scores):
    path = tmp_path_factory.mktemp("j") / "r.json"
    hits = [ScoredDoc("q", f"d{position}", score) for position, score in enumerate(scores)]
    texts = {hit.doc_id: "text" for hit in hits}
    write_dpr_json(path, [Question("q", "w", [])], {"q": hits}, texts, {"q": set()}, layout=layout)
    assert list(read_dpr_json(path)) == hits


def test_an_unknown_layout_is_refused(tmp_path):
    with pytest.raises(TourError, match="unknown layout 'x'; choose one of pyserini, dpr"):
        written(tmp_path, "x")


def test_no_file_is_written_if_a_passage_is_missing(tmp_path):
    with pytest.raises(KeyError):
        write_dpr_json(tmp_path / "r.json", QUESTIONS, RETRIEVED, {}, {"q1": set(), "q2": set()})
    assert list(tmp_path.iterdir()) == []


def test_questions_without_ids_are_numbered(tmp_path):
    (tmp_path / "r.json").write_text('[{"question": "w", "ctxs": []}, {"ctxs": [{"id": "wiki:7", "score": 3}]}]')
    assert list(read_dpr_json(tmp_path / "r.json")) == [ScoredDoc("1", "wiki:7", 3.0)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("3", "holds no retrieval results"),
        ("{", "is not JSON"),
        ('{"a": {"ctxs": []}}', "question 'a' has no list `contexts`"),
        ('{"a b": {"contexts": []}}', "question 'a b' has no id that can be written to a run file"),
        ('{"a": {"contexts": [3]}}', "question 'a', context [0] is not a JSON object"),
        ('{"a": {"contexts": [{"score": 1}]}}', "question 'a', context [0] has no passage id"),
        ('{"a": {"contexts": [{"docid": "d"}]}}', "context [0] has the score None"),
        ('{"a": {"contexts": [{"docid": "d", "score": "high"}]}}', "context [0] has the score 'high'"),
        ('{"a": {"contexts": [{"docid": "d", "score": NaN}]}}', "context [0] has the score nan"),
        ('[{"ctxs": [{"id": "d", "score": 1}, {"id": "d", "score": 1}]}]', "entry [0], context [1] lists document 'd'"),
        (
            '{"a": {"contexts": [{"docid": "\\ud800", "score": 1}]}}',
            "context [0] has no passage id that can be written to a run file",
        ),
        ('{"a": {"contexts": [{"docid": "d", "score": ' + "1" * 5000 + "}]}}", "Exceeds the limit"),
        ('[{"contexts": []}]', "entry [0] has no list `ctxs`"),
        ('[{"id": 1, "ctxs": []}, {"ctxs": []}]', "entry [1] repeats the question id '1'"),
    ],
)
def test_the_error_names_the_wrong_entry(tmp_path, text, says):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(TourError) as caught:
        list(read_dpr_json(tmp_path / "r.json"))
    assert "r.json" in str(caught.value) and says in str(caught.value)
