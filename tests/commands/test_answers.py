"""Judgements of passages by their answers."""

import pytest

from tour_pyserini.answers import main as answers


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topics.tsv").write_text("who\t['Ann Lee']\nwhen\t['19[0-9]1']\nwhy\t['x']\n")
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "Ann Lee", "text": "In 1901"}\n{"_id": "b", "title": "", "text": "ann lee, 19[0-9]1"}\n'
    )
    (tmp_path / "one.trec").write_text("0 Q0 a 1 2.0 t\n0 Q0 b 2 1.0 t\n1 Q0 a 1 1.0 t\n")
    (tmp_path / "two.trec").write_text("0 Q0 b 1 2.0 t\n1 Q0 b 1 2.0 t\n")
    return tmp_path


GIVEN = ["--topics", "topics.tsv", "--corpus", "corpus.jsonl", "--output", "out/qrels"]


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ("--runs one.trec two.trec", ["0 0 a 0", "0 0 b 1", "1 0 a 0", "1 0 b 1", "2 0 no-passage 0"]),
        ("--runs one.trec --hits 1", ["0 0 a 0", "1 0 a 0", "2 0 no-passage 0"]),
        ("--runs one.trec --regex on", ["0 0 a 0", "0 0 b 1", "1 0 a 1", "2 0 no-passage 0"]),
        ("", ["0 0 b 1", "1 0 b 1", "2 0 no-passage 0"]),
        ("--regex on", ["0 0 b 1", "1 0 a 1", "2 0 no-passage 0"]),
        ("--topics curated.tsv", ["0 0 b 1", "1 0 a 1", "2 0 no-passage 0"]),  # its name says that these are patterns
        ("--topics curated.tsv --regex off", ["0 0 b 1", "1 0 b 1", "2 0 no-passage 0"]),
    ],
)
def test_runs_or_a_corpus_are_judged(files, capsys, caplog, more, lines):
    (files / "curated.tsv").write_text((files / "topics.tsv").read_text())
    answers([*GIVEN, *more.split()])
    assert (files / "out" / "qrels").read_text().splitlines() == lines
    answered = len({line.split()[0] for line in lines if line.endswith(" 1")})
    said = f"out/qrels: {len(lines)} judgements of 3 questions, {answered} of them with an answer"
    assert capsys.readouterr().err.startswith(said)
    assert ("--regex off" in caplog.text) == (more == "--topics curated.tsv")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--hits 1", "give --runs"),
        ("--runs other.trec", "'9'"),
        ("--runs unknown.trec", "'z'"),
        ("--topics plain.tsv", "no answers"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_written(files, refused, more, says):
    (files / "other.trec").write_text("9 Q0 a 1 2.0 t\n")
    (files / "unknown.trec").write_text("0 Q0 z 1 2.0 t\n")
    (files / "plain.tsv").write_text("1\tone\n")
    refused(answers, [*GIVEN, *more.split()], says)
