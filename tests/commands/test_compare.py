import json

import pytest

from tour_pyserini.command import run
from tour_pyserini.compare import main as compare
from tour_pyserini.qrels import main as convert


@pytest.fixture
def files(tmp_path):
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t2\n")
    (tmp_path / "one.trec").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq2 Q0 a 1 2.0 t\nq2 Q0 b 2 1.0 t\n")
    (tmp_path / "two.trec").write_text("q1 Q0 a 1 2.0 t\n")
    costs = {"queries": 2, "updates": 3, "pairs": 20, "reused": 0, "scored": 20, "seconds": {"label": 1.0}}
    (tmp_path / "one.trec.json").write_text(json.dumps({"costs": costs}))
    return tmp_path


def test_table_by_hand(files, capsys):
    compare(
        [str(files / "qrels.tsv"), str(files / "one.trec"), str(files / "two.trec"), "--measures", "RR", "Success@1"]
    )
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["run", "RR", "Success@1", "labels/query", "updates/query"],
        ["one.trec", "0.7500", "0.5000", "10.0", "1.50"],
        ["two.trec", "0.5000", "0.5000", "-", "-"],  # an unanswered query counts as 0
    ]


def test_markdown(files, capsys):
    compare([str(files / "qrels.tsv"), str(files / "one.trec"), "--format", "markdown", "--measures", "RR"])
    assert capsys.readouterr().out.splitlines()[2] == "| one.trec | 0.7500 | 10.0 | 1.50 |"


def test_beir_qrels_become_trec_qrels(files, capsys):
    convert(["--input", str(files / "qrels.tsv"), "--output", str(files / "out" / "qrels.trec")])
    assert (files / "out" / "qrels.trec").read_text() == "q1 0 a 1\nq2 0 b 2\n"
    assert "2 judgements of 2 queries" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("one.trec", "q1 Q0 a 1 2.0 t\nq1 Q0 b 2\n", ["one.trec, line 2"]),
        ("one.trec", "q1 Q0 a 1 high t\n", ["one.trec, line 1", "high"]),
        ("one.trec", "q1 Q0 a 1 nan t\n", ["one.trec, line 1", "nan"]),
        ("one.trec", "q1 Q0 a 1 2.0 t\nq1 Q0 a 2 1.0 t\n", ["one.trec, line 2", "second time"]),
        ("one.trec", "", ["one.trec"]),
        ("one.trec.json", "{}", ["one.trec.json"]),
        ("qrels.tsv", "q1 0 7 1\nq1 0 8\n", ["qrels.tsv, line 2"]),
        ("qrels.tsv", "q1 0 a yes\n", ["qrels.tsv, line 1", "yes"]),
        ("qrels.tsv", "q1 0 a 1\nq1 0 a 0\n", ["qrels.tsv, line 2", "second time"]),
    ],
)
def test_malformed_lines_are_named(files, capsys, name, text, names):
    (files / name).write_text(text)
    with pytest.raises(SystemExit) as left:
        run(lambda _: compare([str(files / "qrels.tsv"), str(files / "one.trec")]))
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert all(word in said for word in names)
    assert said.count("\n") == 1


def test_unknown_measure(files, capsys):
    with pytest.raises(SystemExit) as left:
        run(lambda _: compare([str(files / "qrels.tsv"), str(files / "one.trec"), "--measures", "Wonder@3"]))
    assert left.value.code == 2
    assert "Wonder@3" in capsys.readouterr().err
