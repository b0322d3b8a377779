"""Runs side by side: means, costs, paired tests, splits, examples, answers, and how the runs were made."""

import json
from dataclasses import replace

import pytest

from tour_pyserini.compare import CompareRequest, compare_runs
from tour_pyserini.compare import main as compare
from tour_pyserini.errors import TourError


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t2\n")
    (tmp_path / "one.trec").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq2 Q0 a 1 2.0 t\nq2 Q0 b 2 1.0 t\n")
    (tmp_path / "two.trec").write_text("q1 Q0 a 1 2.0 t\n")
    costs = {"queries": 2, "updates": 3, "pairs": 20, "scored": 20, "seconds": {"label": 1.0}}
    (tmp_path / "one.trec.json").write_text(json.dumps({"costs": costs}))
    # The third topic is not judged, and its text is empty, as some of CACM's are.
    topics = [("q2", "the second question"), ("q1", "the first <i>question</i>"), ("q3", "")]
    (tmp_path / "topics.jsonl").write_text("".join(json.dumps({"_id": q, "text": text}) + "\n" for q, text in topics))
    passages = {"a": "an apple", "b": "a <b>ball</b>"}
    lines = [json.dumps({"_id": docid, "title": "", "text": text}) + "\n" for docid, text in passages.items()]
    (tmp_path / "corpus.jsonl").write_text("".join(lines))
    return tmp_path


def call(*more, runs=("one.trec", "two.trec"), measures="RR"):
    compare(["qrels.tsv", *runs, "--measures", *measures.split(), *more])


TEXTS = ["--topics", "topics.jsonl", "--corpus", "corpus.jsonl"]


def test_the_output_file_has_the_format(files, capsys):
    call("--format", "csv", "--output", "out/table")
    written = "run,answered,RR,labels/query,updates/query\none.trec,2,0.7500,10.0,1.50\ntwo.trec,1,0.5000,-,-\n"
    assert capsys.readouterr().out == "" and (files / "out" / "table").read_text() == written


def test_the_comparison_with_a_baseline_and_the_picture(files, capsys):
    call("--baseline", "./two.trec", "--picture", "gains.png")  # any path to the run
    means, title, table = capsys.readouterr().out.split("\n\n")
    assert means.splitlines()[1].split() == ["one.trec", "2", "0.7500", "10.0", "1.50"]
    assert title == "Against two.trec: paired randomisation test, Holm's correction over 1 comparison; * at 0.05"
    assert [line.split() for line in table.splitlines()] == [
        ["run", "measure", "difference", "wins", "ties", "losses", "p", "p", "(Holm)", "significant"],
        ["one.trec", "RR", "+0.2500", "1", "1", "0", "1.0000", "1.0000"],
    ]
    assert (files / "gains.png").read_bytes().startswith(b"\x89PNG")
    call("--baseline", "two.trec", "--picture", "gains.pdf")
    assert (files / "gains.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--baseline three.trec", "not among the runs"),
        ("--picture gains.png", "--baseline"),
        ("--baseline two.trec --picture gains.bmp", "gains.bmp"),
        ("--baseline two.trec --show 1", "--topics and --corpus"),
        ("--baseline two.trec --show 1 --topics t --corpus c --format csv", "--format csv"),
        ("--baseline two.trec --alpha 5", "--alpha"),
        ("--splits ids.tsv", "'q9'"),
        ("--measures RR", "no query in common"),
        ("--measures EM@1", "--predictions"),
        ("--predictions a.jsonl", "EM@k"),
        ("--measures RR EM@1 --predictions a", "2 runs"),
        ("--measures RR EM@1 --predictions a b", "--topics"),
    ],
)
def test_wrong_flags_and_files_are_refused_and_nothing_is_written(files, refused, more, says):
    (files / "ids.tsv").write_text("q9\told\n")
    if says == "no query in common":
        (files / "one.trec").write_text("q8 Q0 a 1 2.0 t\n")
    refused(compare, ["qrels.tsv", "one.trec", "two.trec", "--output", "table.txt", *more.split()], says)


ANSWERS = [("q1", "who", ["19[0-9]1"]), ("q2", "what", ["x"]), ("q3", "not judged", ["x"])]


@pytest.mark.parametrize(
    ("topics", "said", "answered"),
    [("answers", {"q1": "The 19[0-9]1!", "q2": "x y"}, "0.5000"), ("answers", {"q1": "1901", "q2": "y"}, "0.0000"),
     ("curated", {"q1": "1901", "q2": "y"}, "0.5000")],  # its name says that the answers are regular expressions
)  # fmt: skip
def test_measures_of_answers_are_in_the_same_table_in_the_order_given(files, capsys, topics, said, answered):
    lines = [{"_id": qid, "text": text, "answers": gold} for qid, text, gold in ANSWERS]
    (files / f"{topics}.jsonl").write_text("".join(json.dumps(topic) + "\n" for topic in lines))
    predictions = "".join(json.dumps({"qid": qid, "answer": answer}) + "\n" for qid, answer in said.items())
    for name in ("one", "two"):
        (files / f"{name}.jsonl").write_text(predictions)
    (files / "splits.tsv").write_text("q1\teasy\nq2\thard\n")
    given = ["--topics", f"{topics}.jsonl", "--predictions", "one.jsonl", "two.jsonl"]
    more = ["--splits", "splits.tsv", "--baseline", "two.trec", "--show", "1", *TEXTS[2:]]
    call(*given, *more, measures="EM@1 Success@1 RR")
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if line]
    assert lines[0][2:5] == ["EM@1", "Success@1", "RR"] and lines[1][2:5] == [answered, "0.5000", "0.7500"]
    assert ["0.0000", "0.0000", "0.5000"] in [line[-3:] for line in lines if line[0] == "hard"]
    assert "rescued by one.trec against two.trec (EM@1)" in out
    if topics == "curated":
        with pytest.raises(TourError, match="F1@1 compares words"):
            call(*given, measures="RR F1@1")


def test_inputs_are_never_overwritten(files):
    for name in ("qrels.tsv", "one.trec", "one.trec.json"):
        (files / f"{name}.png").symlink_to(files / name)
        for flag in ("--output", "--picture"):
            with pytest.raises(TourError, match="overwrite"):
                call("--baseline", "one.trec", flag, f"{name}.png")


@pytest.mark.parametrize(
    ("qrels", "warnings"),
    [
        ("q1 0 a 1\nq1 0 b 0\n", 1),  # made from the first run
        ("q1 0 a 1\nq1 0 no-passage 0\n", 0),  # of a whole corpus
        ("q1 0 a 1\nq1 0 z 0\n", 0),  # the first run is not all judged either
    ],
)
def test_a_warning_for_runs_that_were_not_judged(files, caplog, qrels, warnings):
    (files / "qrels.tsv").write_text(qrels)
    (files / "first").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq7 Q0 y 1 1.0 t\n")
    (files / "other").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 c 2 1.0 t\n")
    call(runs=["first", "other"])
    said = [record.getMessage() for record in caplog.records if "not judged" in record.getMessage()]
    assert len(said) == warnings
    assert all(one.startswith("50 % of the first 20 hits of") and "other" in one for one in said)


def test_a_report_is_its_text_and_shows_its_tables_in_notebooks(files):
    (files / "one.trec").rename(files / "<$one$>")
    given = {"qrels": "qrels.tsv", "runs": ["<$one$>", "two.trec"], "measures": ["RR"]}
    shown = {"show": 1, "topics": "topics.jsonl", "corpus": "corpus.jsonl"}
    request = CompareRequest(**given, **shown, baseline="two.trec")
    found, html = compare_runs(request), compare_runs(request)._repr_html_()
    assert isinstance(found, str) and found.startswith("run ") and "<svg" not in found
    assert html.count("<table>") == 2 and "&lt;$one$&gt;" in html and "<$one$>" not in html and "<b>ball" not in html
    assert "1 won, 1 tied, 0 lost, mean +0.2500" in found.figure and html.endswith(found.figure)
    markdown = compare_runs(replace(request, format="markdown"))
    assert markdown.startswith("| run |") and markdown._repr_html_() == html
    assert compare_runs(CompareRequest(**given)).figure == ""
