import gzip
import json

import pytest

from tour_pyserini.data.topics import read_questions, read_topics
from tour_pyserini.errors import TourError


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


DPR = [
    {"dataset": "nq", "question": "who", "answers": ["A", "B"], "positive_ctxs": [{"title": "t", "text": "x"}]},
    {"question": "who", "answers": []},
]


def test_questions_of_a_json_list_are_numbered(tmp_path):
    topics = read_topics(write(tmp_path / "nq-dev.json", DPR))
    assert list(topics) == [(0, "who"), (1, "who")]
    assert [topics.topics[qid]["answers"] for qid in (0, 1)] == [["A", "B"], []]


def test_a_gzip_file_is_read(tmp_path):
    (tmp_path / "P17.test.json.gz").write_bytes(gzip.compress(json.dumps(DPR).encode()))
    assert [question.qid for question in read_questions(tmp_path / "P17.test.json.gz")] == ["0", "1"]


def test_ids_in_a_json_list_are_kept(tmp_path):
    path = write(tmp_path / "fid.json", [{"id": 7, "question": "who", "answers": ["A"]}])
    assert list(read_topics(path)) == [("7", "who")]


def squad(*questions):
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": list(questions)}]}]}


def question(qid="q1", text="who", answers=("A",)):
    return {"id": qid, "question": text, "answers": [{"text": answer, "answer_start": 0} for answer in answers]}


def test_squad_keeps_equal_answers_once_in_order(tmp_path):
    value = squad(question(answers=("B", "A", "B")), question("7", answers=()))
    topics = read_topics(write(tmp_path / "squad.json", value)).topics
    assert topics == {"q1": {"title": "who", "answers": ["B", "A"]}, "7": {"title": "who", "answers": []}}


def test_xquad_is_read(shared):
    questions = read_questions(shared / "collections" / "xquad" / "xquad.en.json")
    assert len(questions) == 1190
    assert len({found.qid for found in questions}) == 1190
    assert all(found.answers and len(set(found.answers)) == len(found.answers) for found in questions)
    assert questions[0].text == "How many points did the Panthers defense surrender?"
    assert questions[0].answers == ["308"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('[{"question": "who", "answers": ["A"]},\n {"question" "who"}]', ", line 2, column 14 is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("3", "has no known format: expected a list of questions with answers"),
        ("{}", "has no known format: expected a list of questions with answers"),
        ('{"a": 1}', "has no known format: expected a list of questions with answers"),
        ("[]", "holds no topic"),
        ({"data": []}, "holds no topic"),
        ([*DPR, 3], ", entry [2] is not a JSON object"),
        ([*DPR, {"answers": ["A"]}], ", entry [2] has no query text"),
        ([*DPR, {"question": " ", "answers": ["A"]}], ", entry [2] has no text"),
        ([*DPR, {"question": "why"}], ", entry [2] has no answers"),
        ([*DPR, {"question": "why", "answers": [1]}], ", entry [2] does not have a list of strings"),
        ([*DPR, {"question": "why", "answers": {"A": 1}}], ", entry [2] does not have a list of strings"),
        ([{"id": "a", "question": "w", "answers": []}] * 2, ", entry [1] repeats the query id 'a'"),
        ({"data": [3]}, ", data[0] is not a JSON object"),
        ({"data": [{"paragraphs": 3}]}, ", data[0] has no list `paragraphs`"),
        ({"data": [{"paragraphs": [{}]}]}, ", data[0].paragraphs[0] has no list `qas`"),
        (squad(question(), question()), ", data[0].paragraphs[0].qas[1] repeats the query id 'q1'"),
        (squad({"question": "who", "answers": []}), ".qas[0] has no query id"),
        (squad({"id": "q", "answers": []}), ".qas[0] has no query text"),
        (squad({"id": "q", "question": "who", "answers": ["A"]}), ".qas[0] does not have a list of answers"),
        (squad({"id": "q", "question": "who"}), ".qas[0] does not have a list of answers"),
    ],
)
def test_the_error_names_the_wrong_entry(tmp_path, value, says):
    path = write(tmp_path / "topics.json", value)
    with pytest.raises(TourError) as caught:
        read_questions(path)
    assert str(path) in str(caught.value) and says in str(caught.value)


def test_the_error_names_a_line_with_a_wrong_encoding(tmp_path):
    (tmp_path / "t.json").write_bytes('[{"question": "who",\n"answers": ["café"]}]'.encode("latin-1"))
    with pytest.raises(TourError, match=r"t\.json, line 2 is not UTF-8"):
        read_topics(tmp_path / "t.json")


def test_a_missing_file_is_refused():
    with pytest.raises(TourError, match=r"cannot read missing\.json: No such file"):
        read_topics("missing.json")


def test_questions_need_answers(tmp_path):
    with pytest.raises(TourError, match=r"the query '1' of .*t\.tsv has no answers"):
        read_questions(write(tmp_path / "t.tsv", "1\tone\n"))


def test_questions_are_in_the_order_of_their_file(tmp_path):
    lines = [f'{{"_id": "{qid}", "text": "who", "answers": ["A"]}}\n' for qid in ("b", "a")]
    assert [found.qid for found in read_questions(write(tmp_path / "q.jsonl", "".join(lines)))] == ["b", "a"]


def test_the_error_names_a_line_with_broken_quotes(tmp_path):
    path = write(tmp_path / "dpr.txt", "who\t['A']\n\"why\t['A']\n")
    with pytest.raises(TourError, match=r"dpr\.txt, line 2 is not a question, a tab and a list"):
        read_questions(path)
