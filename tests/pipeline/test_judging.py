"""`judge` from Python: passages that contain an answer, as qrels."""

import dataclasses

import pytest

from tour_pyserini.answers import JudgeRequest, judge
from tour_pyserini.errors import TourError


@pytest.fixture
def request_(tmp_path):
    (tmp_path / "topics.tsv").write_text("who\t['Ann Lee']\nwhen\t['19[0-9]1']\nwhy\t['x']\n")
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "Ann Lee", "text": "In 1901"}\n{"_id": "b", "title": "", "text": "ann lee, 19[0-9]1"}\n'
    )
    (tmp_path / "run.trec").write_text("0 Q0 a 1 2.0 t\n0 Q0 b 2 1.0 t\n1 Q0 a 1 1.0 t\n")
    names = {name: str(tmp_path / file) for name, file in (("topics", "topics.tsv"), ("corpus", "corpus.jsonl"))}
    return JudgeRequest(**names, output=str(tmp_path / "out" / "qrels"), processes=1)


def test_a_whole_corpus_is_judged(request_):
    summary = judge(request_)
    assert summary.output.read_text() == "0 0 b 1\n1 0 b 1\n2 0 no-passage 0\n"
    assert summary[1:5] == (3, 3, 2, False)
    assert summary.seconds > 0


def test_runs_are_judged_with_patterns(request_, tmp_path):
    request_ = dataclasses.replace(request_, runs=[str(tmp_path / "run.trec")], regex="on")
    summary = judge(request_)
    assert summary.output.read_text().splitlines() == ["0 0 a 0", "0 0 b 1", "1 0 a 1", "2 0 no-passage 0"]
    assert summary.regex and summary.answered == 2
    assert judge(dataclasses.replace(request_, hits=1)).judgements == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hits": 3}, "--hits limits what runs retrieved; give --runs"),
        ({"hits": 0, "runs": ["r"]}, "--hits must be at least 1, not 0"),
        ({"processes": 0}, "--processes must be at least 1, not 0"),
        ({"regex": "maybe"}, "--regex must be one of auto, on, off, not 'maybe'"),
    ],
)
def test_a_wrong_request_is_refused(request_, values, message):
    with pytest.raises(TourError, match=message):
        dataclasses.replace(request_, **values)
    with pytest.raises(dataclasses.FrozenInstanceError):
        request_.hits = 3


def test_an_output_over_an_input_is_refused(request_):
    with pytest.raises(TourError, match="would overwrite the input"):
        judge(dataclasses.replace(request_, output=request_.corpus))
