import gzip
import json

import pytest

from tour_pyserini.data.topics import Question, read_questions, read_topics
from tour_pyserini.errors import TourError

LONG = "1" * 5000


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("name", ["nq-test.qa.csv", "nq-test.qa.csv.gz"])
def test_dpr_csv_files_are_read_as_tab_separated(tmp_path, name):
    content = b"who, then\t['A', 'B']\nwhy\t[\"C\"]\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read_questions(tmp_path / name) == [Question("0", "who, then", ["A", "B"]), Question("1", "why", ["C"])]


WITHOUT_ID, WITH_ID = {"question": "who", "answers": ["A"]}, {"id": "q7", "question": "why", "answers": ["B"]}


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ((WITHOUT_ID, WITH_ID), "has a query id, but the first question of the file has none"),
        ((WITH_ID, WITHOUT_ID), "has no query id"),
        ((WITH_ID, WITHOUT_ID | {"id": None}), "has no query id"),
    ],
)
@pytest.mark.parametrize("as_lines", [True, False])
def test_a_file_with_and_without_ids_is_refused(tmp_path, records, says, as_lines):
    path = write(tmp_path / "q.jsonl", lines(*records)) if as_lines else write(tmp_path / "q.json", list(records))
    with pytest.raises(TourError) as caught:
        read_questions(path)
    assert str(caught.value).startswith(f"{path}, {'line 2' if as_lines else 'entry [1]'} {says}")


@pytest.mark.parametrize("as_lines", [True, False])
def test_a_null_id_counts_as_no_id(tmp_path, as_lines):
    records = [WITHOUT_ID | {"id": None}, WITHOUT_ID, WITHOUT_ID | {"_id": None}]
    path = write(tmp_path / "q.jsonl", lines(*records)) if as_lines else write(tmp_path / "q.json", records)
    assert [question.qid for question in read_questions(path)] == ["0", "1", "2"]


def test_the_field_question_has_priority_over_text(tmp_path):
    path = write(tmp_path / "q.jsonl", lines(WITH_ID | {"text": "a passage", "title": "a page", "query": "x"}))
    assert read_questions(path)[0].text == "why"


@pytest.mark.parametrize(
    ("answers", "read"),
    [('["Nobel", "B"]', ["Nobel", "B"]), (" ['Nobel']", ["Nobel"]), ("Nobel [sic]", ["Nobel [sic]"])],
)
def test_a_string_of_answers_is_read_as_a_list_or_as_one_answer(tmp_path, answers, read):
    assert read_questions(write(tmp_path / "q.jsonl", lines(WITH_ID | {"answers": answers})))[0].answers == read


@pytest.mark.parametrize("answers", ["[__import__('os').abort()]", "['A', 3]", "['A'"])
def test_a_broken_string_of_answers_is_refused(tmp_path, answers):
    with pytest.raises(TourError, match=r"q\.jsonl, line 1 does not have a list of strings"):
        read_questions(write(tmp_path / "q.jsonl", lines(WITH_ID | {"answers": answers})))


def test_retrieval_results_are_read_as_questions(tmp_path):
    value = {
        "10": {"question": "who", "answers": ["A"], "contexts": [{"docid": "d", "score": "1", "text": "x"}]},
        "9": {"question": "why", "answers": "['B']", "contexts": []},
    }
    path = write(tmp_path / "run.json", value)
    assert read_questions(path) == [Question("10", "who", ["A"]), Question("9", "why", ["B"])]
    assert list(read_topics(path)) == [("10", "who"), ("9", "why")]


@pytest.mark.parametrize("read", [read_questions, read_topics])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"1": {"answers": ["A"]}}, "query '1' has no query text"),
        ({"1": {"title": "t"}, "2": {"title": None}}, "query '2' has no query text"),
        ({"1": {"question": " ", "answers": ["A"]}}, "query '1' has no text"),
        ({"1": {"title": " ", "answers": ["A"]}}, "query '1' has no text"),
        ({"1": {"question": "b", "answers": [3]}}, "query '1' does not have a list of strings"),
        ({"1": {"title": "b", "answers": [3]}}, "query '1' does not have a list of strings"),
        ({"1": {"title": "b", "answers": 3}}, "query '1' does not have a list of strings"),
        ({"\ud800": {"title": "b", "answers": []}}, r"half a surrogate pair in the query id '\ud800'"),
        ({"\ud800": {"question": "b", "answers": []}}, r"half a surrogate pair in the query id '\ud800'"),
        ([WITH_ID | {"id": "\ud800"}], r"half a surrogate pair in the query id '\ud800'"),
        (f'[{{"id": {LONG}, "question": "b", "answers": []}}]', "cannot be parsed as JSON: Exceeds the limit"),
    ],
)
def test_the_error_names_the_wrong_query_of_a_json_file(tmp_path, read, value, says):
    path = write(tmp_path / "t.json", value)
    with pytest.raises(TourError) as caught:
        read(path)
    assert str(path) in str(caught.value) and says in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f'{{"id": {LONG}, "text": "x"}}', "is not JSON"),
        ('{"id": "\\ud800", "text": "x"}', "half a surrogate pair"),
    ],
)
def test_json_lines_with_odd_ids_are_refused(tmp_path, line, says):
    with pytest.raises(TourError, match=rf"q\.jsonl, line 1 .*{says}"):
        read_topics(write(tmp_path / "q.jsonl", line + "\n"))


@pytest.mark.parametrize(("digits", "kind"), [(18, int), (19, str), (5000, str)])
def test_long_ids_are_strings(tmp_path, digits, kind):
    qid = "1" * digits
    assert list(read_topics(write(tmp_path / "t.tsv", f"{qid}\tone\n"))) == [(kind(qid), "one")]


@pytest.mark.parametrize("line", ["who is x\t['a', 'b'", "who\t['a', 'b'", "who is x\t[a", 'who is x\t"[""a"", ""b"'])
def test_the_error_names_a_broken_list_on_the_first_line(tmp_path, line):
    with pytest.raises(TourError, match=r"t\.tsv, line 1 does not have a list of strings as its answers"):
        read_topics(write(tmp_path / "t.tsv", line + "\n"))


def test_a_text_may_begin_with_a_bracket(tmp_path):
    assert list(read_topics(write(tmp_path / "t.tsv", "7\t[sic] in quotations\n"))) == [(7, "[sic] in quotations")]
