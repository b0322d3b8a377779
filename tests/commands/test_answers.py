import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tour_pyserini
from tour_pyserini.answers import main as answers
from tour_pyserini.command import run
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.dpr_json import main as dpr_json
from tour_pyserini.errors import TourError


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


def written(*more, given=GIVEN):
    answers([*given, *more])
    with open("out/qrels") as file:
        return file.read().splitlines()


def test_runs_are_judged_together(files, capsys):
    lines = written("--runs", "one.trec", "two.trec")
    assert lines == ["0 0 a 0", "0 0 b 1", "1 0 a 0", "1 0 b 1", "2 0 no-passage 0"]
    said = capsys.readouterr().err
    assert said.startswith("out/qrels: 5 judgements of 3 questions, 2 of them with an answer (plain answers); ")
    assert said.count("\n") == 1 and said.endswith(" s\n")


def test_hits_limits_the_judged_passages_and_regex_reads_patterns(files):
    assert written("--runs", "one.trec", "--hits", "1") == ["0 0 a 0", "1 0 a 0", "2 0 no-passage 0"]
    assert written("--runs", "one.trec", "--regex", "on") == ["0 0 a 0", "0 0 b 1", "1 0 a 1", "2 0 no-passage 0"]


def test_a_whole_corpus_is_judged(files):
    assert written() == ["0 0 b 1", "1 0 b 1", "2 0 no-passage 0"]
    assert written("--regex", "on") == ["0 0 b 1", "1 0 a 1", "2 0 no-passage 0"]


def test_the_name_of_the_topics_decides_whether_answers_are_patterns(files, capsys):
    (files / "topics.tsv").rename(files / "curated.tsv")
    given = [*GIVEN[2:], "--topics", "curated.tsv"]
    assert written(given=given) == ["0 0 b 1", "1 0 a 1", "2 0 no-passage 0"]
    assert "regular expressions" in capsys.readouterr().err
    assert written("--regex", "off", given=given)[1] == "1 0 b 1"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--hits", "1"], "give --runs"),
        (["--hits", "0", "--runs", "one.trec"], "--hits must be at least 1"),
        (["--processes", "0"], "--processes must be at least 1"),
        (["--topics", "missing.tsv"], "cannot read missing.tsv"),
        (["--corpus", "missing.jsonl"], "corpus not found: missing.jsonl"),
        (["--runs", "missing.trec"], "cannot read missing.trec"),
        (["--runs", "other.trec"], "other.trec has hits for '9', which is not in the topics"),
        (["--runs", "unknown.trec"], "document 'z' is not in corpus.jsonl"),
        (["--topics", "plain.tsv"], "the query '1' of plain.tsv has no answers"),
    ],
)
def test_wrong_input_gives_one_sentence_and_no_file(files, capsys, more, says):
    (files / "other.trec").write_text("9 Q0 a 1 2.0 t\n")
    (files / "unknown.trec").write_text("0 Q0 z 1 2.0 t\n")
    (files / "plain.tsv").write_text("1\tone\n")
    with pytest.raises(SystemExit) as left:
        run(lambda _: answers([*GIVEN, *more]))
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert says in said and said.count("\n") == 1
    assert not (files / "out").exists() or not list((files / "out").iterdir())


def test_a_corpus_is_judged_by_two_processes(files):
    documents = [f'{{"_id": "d{at}", "title": "", "text": "ann lee {at}"}}\n' for at in range(600)]
    (files / "corpus.jsonl").write_text("".join(documents))
    command = [sys.executable, "-m", "tour_pyserini.answers", *GIVEN, "--processes", "2"]
    environment = os.environ | {"PYTHONPATH": str(Path(tour_pyserini.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("out/qrels: 602 judgements of 3 questions, 1 of them with an answer")
    assert (files / "out" / "qrels").read_text().splitlines()[599:] == [
        "0 0 d599 1",
        "1 0 no-passage 0",
        "2 0 no-passage 0",
    ]


TO_JSON = ["--topics", "topics.tsv", "--corpus", "corpus.jsonl", "--run", "one.trec", "--output", "one.json"]


@pytest.mark.parametrize("layout", ["pyserini", "dpr"])
def test_a_run_converted_to_json_and_back_is_the_same(files, capsys, layout):
    dpr_json([*TO_JSON, "--layout", layout])
    assert capsys.readouterr().err.startswith("one.json: 3 questions, 1 of them with an answer, 3 hits; ")
    dpr_json(["--input", "one.json", "--output", "back.trec"])
    assert capsys.readouterr().err.startswith("back.trec: 2 questions, 3 hits; ")
    assert (files / "back.trec").read_text() == (files / "one.trec").read_text().replace(" t\n", " tour_pyserini\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (TO_JSON[2:], "--topics is missing"),
        (["--output", "x"], "--run is missing"),
        ([*TO_JSON, "--input", "one.json"], "leave the other flags out"),
        ([*TO_JSON, "--hits", "0"], "--hits must be at least 1"),
        (["--input", "one.trec", "--output", "x"], "one.trec is not JSON"),
        (["--input", "empty.json", "--output", "x"], "empty.json holds no hits"),
    ],
)
def test_wrong_conversions_give_one_sentence_and_no_file(files, capsys, arguments, says):
    (files / "empty.json").write_text('{"0": {"contexts": []}}')
    with pytest.raises(SystemExit) as left:
        run(lambda _: dpr_json(arguments))
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert says in said and said.count("\n") == 1
    assert not (files / "x").exists() and not (files / "one.json").exists()


def test_a_run_keeps_the_order_of_the_json(files, caplog):
    contexts = [
        [("a", "1"), ("b", "1")],
        [("a", 1.0), ("b", 2.0)],
        [("a", 16777217.0), ("b", 16777216.0)],  # equal in single precision
        [("a", 0.5), ("b", 0.25)],
    ]
    listed = {
        str(at): {"contexts": [{"docid": docid, "score": score} for docid, score in each]}
        for at, each in enumerate(contexts)
    }
    (files / "in.json").write_text(json.dumps(listed))
    dpr_json(["--input", "in.json", "--output", "back.trec"])
    hits = read_rankings("back.trec", set(listed))
    assert all(docids == ["a", "b"] for docids in hits.values())
    assert (files / "back.trec").read_text().splitlines()[-2:] == [
        "3 Q0 a 1 0.5 tour_pyserini",
        "3 Q0 b 2 0.25 tour_pyserini",
    ]
    assert ["3 of 4 questions" in record.getMessage() for record in caplog.records] == [True]


def test_a_warning_says_how_to_switch_patterns_off(files, caplog):
    (files / "topics.tsv").rename(files / "curated.tsv")
    written(given=[*GIVEN[2:], "--topics", "curated.tsv"])
    assert "--regex off" in caplog.text


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (answers, [*GIVEN[:4], "--runs", "one.trec", "--output", "./one.trec"]),
        (answers, [*GIVEN[:4], "--output", "corpus.jsonl"]),
        (dpr_json, [*TO_JSON[:6], "--output", "topics.tsv"]),
        (dpr_json, ["--input", "one.trec", "--output", "link"]),
    ],
)
def test_inputs_are_never_overwritten(files, command, arguments):
    (files / "link").symlink_to("one.trec")
    before = {path: path.read_bytes() for path in files.iterdir()}
    with pytest.raises(TourError, match="would overwrite the input"):
        command(arguments)
    assert {path: path.read_bytes() for path in files.iterdir()} == before


def test_an_output_that_cannot_be_written_is_reported_first(files):
    (files / "folder").mkdir()
    for command, given in ((answers, GIVEN[:4]), (dpr_json, ["--input", "missing.json"])):
        with pytest.raises(TourError, match="cannot write"):
            command([*given, "--output", "folder"])
