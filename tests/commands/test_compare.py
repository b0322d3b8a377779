import json

import pytest

from tour_pyserini.command import run
from tour_pyserini.compare import main as compare
from tour_pyserini.errors import TourError
from tour_pyserini.qrels import convert_qrels
from tour_pyserini.qrels import main as convert


@pytest.fixture
def files(tmp_path):
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t2\n")
    (tmp_path / "one.trec").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq2 Q0 a 1 2.0 t\nq2 Q0 b 2 1.0 t\n")
    (tmp_path / "two.trec").write_text("q1 Q0 a 1 2.0 t\n")
    costs = {"queries": 2, "updates": 3, "pairs": 20, "scored": 20, "seconds": {"label": 1.0}}
    (tmp_path / "one.trec.json").write_text(json.dumps({"costs": costs}))
    return tmp_path


def test_the_table_of_means(files, capsys):
    compare(
        [str(files / "qrels.tsv"), str(files / "one.trec"), str(files / "two.trec"), "--measures", "RR", "Success@1"]
    )
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["run", "answered", "RR", "Success@1", "labels/query", "updates/query"],
        ["one.trec", "2", "0.7500", "0.5000", "10.0", "1.50"],
        ["two.trec", "1", "0.5000", "0.5000", "-", "-"],  # an unanswered query counts as 0
    ]


def test_a_markdown_table(files, capsys):
    compare([str(files / "qrels.tsv"), str(files / "one.trec"), "--format", "markdown", "--measures", "RR"])
    assert capsys.readouterr().out.splitlines()[2] == "| one.trec | 0.7500 | 10.0 | 1.50 |"


def test_beir_qrels_become_trec_qrels(files, capsys):
    convert(["--input", str(files / "qrels.tsv"), "--output", str(files / "out" / "qrels.trec")])
    assert (files / "out" / "qrels.trec").read_text() == "q1 0 a 1\nq2 0 b 2\n"
    assert "2 judgements of 2 queries" in capsys.readouterr().err
    output = files / "python.trec"
    assert convert_qrels(files / "out" / "qrels.trec", output) == (output, 2, 2)
    assert output.read_text() == (files / "out" / "qrels.trec").read_text()


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("one.trec", "q1 Q0 a 1 2.0 t\nq1 Q0 b 2\n", ["one.trec, line 2"]),
        ("one.trec", "q1 Q0 a 1 high t\n", ["one.trec, line 1", "high"]),
        ("one.trec", "q1 Q0 a 1 nan t\n", ["one.trec, line 1", "nan"]),
        ("one.trec", "q1 Q0 a 1 2.0 t\nq1 Q0 a 2 1.0 t\n", ["one.trec, line 2", "second time"]),
        ("one.trec", "", ["one.trec"]),
        ("one.trec.json", "{}", ["one.trec.json"]),
        ("one.trec", "q8 Q0 a 1 2.0 t\n", ["one.trec and", "qrels.tsv have no query in common"]),
        ("qrels.tsv", "q1 0 7 1\nq1 0 8\n", ["qrels.tsv, line 2"]),
        ("qrels.tsv", "q1 0 a yes\n", ["qrels.tsv, line 1", "yes"]),
        ("qrels.tsv", "q1 0 a --1\n", ["qrels.tsv, line 1", "--1"]),
        ("qrels.tsv", "q1 0 a ²\n", ["qrels.tsv, line 1", "²"]),
        ("qrels.tsv", "q1 0 a 2147483648\n", ["qrels.tsv, line 1", "32 bits"]),
        ("qrels.tsv", f"q1 0 a {'1' * 5000}\n", ["qrels.tsv, line 1", "32 bits"]),
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


def test_an_unknown_measure_is_refused(files, capsys):
    with pytest.raises(SystemExit) as left:
        run(lambda _: compare([str(files / "qrels.tsv"), str(files / "one.trec"), "--measures", "Wonder@3"]))
    assert left.value.code == 2
    assert "Wonder@3" in capsys.readouterr().err


def call(files, *more):
    compare([str(files / "qrels.tsv"), str(files / "one.trec"), str(files / "two.trec"), "--measures", "RR", *more])


def test_the_comparison_with_a_baseline(files, capsys):
    call(files, "--baseline", str(files / "two.trec"))
    means, title, table = capsys.readouterr().out.split("\n\n")
    assert means.splitlines()[1].split() == ["one.trec", "2", "0.7500", "10.0", "1.50"]
    assert title == (
        "Against two.trec: paired randomisation test, Holm's correction over 1 comparison; * significant at 0.05"
    )
    assert [line.split() for line in table.splitlines()] == [
        ["run", "measure", "difference", "wins", "ties", "losses", "p", "p", "(Holm)", "significant"],
        ["one.trec", "RR", "+0.2500", "1", "1", "0", "1.0000", "1.0000"],
    ]


def test_significant_differences_are_marked(tmp_path, capsys):
    queries = [f"q{at}" for at in range(8)]
    (tmp_path / "qrels").write_text("".join(f"{query} 0 a 1\n" for query in queries))
    (tmp_path / "good").write_text("".join(f"{query} Q0 a 1 1.0 t\n" for query in queries))
    for bad in ("bad", "worse"):
        (tmp_path / bad).write_text("".join(f"{query} Q0 b 1 1.0 t\n" for query in queries))
    runs = [str(tmp_path / run) for run in ("good", "bad", "worse")]

    def last_columns(*more):
        compare([str(tmp_path / "qrels"), *runs, "--measures", "RR", "--format", "csv", *more])
        return [line.split(",")[6:] for line in capsys.readouterr().out.split("\n\n")[1].splitlines()[1:]]

    # 2 of 256 patterns; twice that after the correction over two runs, and no difference between the bad ones.
    baseline = ["--baseline", runs[0]]
    assert last_columns(*baseline) == [["0.0078", "0.0156", "*"]] * 2
    assert last_columns(*baseline, "--alpha", "0.01") == [["0.0078", "0.0156", ""]] * 2
    assert last_columns("--baseline", runs[1]) == [["0.0078", "0.0156", "*"], ["1.0000", "1.0000", ""]]
    assert last_columns(*baseline, "--test", "t") == [["2e-308", "4e-308", "*"]] * 2  # all differences are equal


def test_the_report_is_written_to_the_output_file(files, capsys):
    call(files, "--format", "csv", "--output", str(files / "out" / "table.csv"))
    assert capsys.readouterr().out == ""
    assert (files / "out" / "table.csv").read_text() == (
        "run,answered,RR,labels/query,updates/query\none.trec,2,0.7500,10.0,1.50\ntwo.trec,1,0.5000,-,-\n"
    )


def test_a_latex_table(files, capsys):
    call(files, "--format", "latex")
    assert capsys.readouterr().out == (
        "\\begin{tabular}{lrrrr}\n\\toprule\nrun & answered & RR & labels/query & updates/query \\\\\n\\midrule\n"
        "one.trec & 2 & 0.7500 & 10.0 & 1.50 \\\\\ntwo.trec & 1 & 0.5000 & - & - \\\\\n\\bottomrule\n\\end{tabular}\n"
    )


def test_a_picture_of_gains_is_drawn(files, capsys):
    call(files, "--baseline", str(files / "two.trec"), "--picture", str(files / "gains.png"))
    assert (files / "gains.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def texts(files):
    (files / "topics.tsv").write_text("q2\tthe second question\nq1\tthe first question\n")
    (files / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "", "text": "an apple"}\n{"_id": "b", "title": "", "text": "a ball"}\n'
    )
    return ["--topics", str(files / "topics.tsv")]


def test_the_largest_gains_and_losses_are_shown(files, texts, capsys):
    more = ["--show", "2", *texts, "--corpus", str(files / "corpus.jsonl")]
    call(files, "--baseline", str(files / "one.trec"), *more, "--format", "markdown")
    assert capsys.readouterr().out.split("```")[1].strip().splitlines() == [
        "rescued by two.trec against one.trec (RR): 0 shown",
        "",
        "lost by two.trec against one.trec (RR): 1 shown",
        "",
        "-0.5000  q2  the second question",
        "    relevant, by rank: b 2 -> -",
        "    before    a  an apple",
        "    after     no hits",
    ]


def test_splits_count_the_topics_in_the_order_of_their_file(files, texts, capsys):
    (files / "splits.jsonl").write_text(
        '{"id": 0, "labels": ["total"]}\n{"id": 1, "labels": ["total", "no_overlap"]}\n'
    )
    call(files, "--splits", str(files / "splits.jsonl"), *texts)
    title, table = capsys.readouterr().out.split("\n\n")[1:]
    assert title == "By split"
    assert [line.split() for line in table.splitlines()] == [
        ["split", "run", "queries", "RR"],
        ["total", "one.trec", "2", "0.7500"],
        ["total", "two.trec", "2", "0.5000"],
        ["no_overlap", "one.trec", "1", "1.0000"],  # q1, the second of the topics
        ["no_overlap", "two.trec", "1", "1.0000"],
    ]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--baseline", "three.trec"], "three.trec is not among the runs"),
        (["--baseline", "loop.trec"], "loop.trec is not among the runs"),
        (["--baseline", "two.trec", "--picture", "./table.png", "--output", "table.png"], "choose two files"),
        (["--baseline", "two.trec", "--picture", "folder.png"], "cannot write"),
        (["--picture", "gains.png"], "--baseline"),
        (["--show", "2"], "--baseline"),
        (["--baseline", "two.trec", "--picture", "gains.bmp"], "gains.bmp does not end with"),
        (["--baseline", "two.trec", "--show", "0"], "at least 1"),
        (["--baseline", "two.trec", "--show", "1"], "--topics and --corpus"),
        (
            ["--baseline", "two.trec", "--show", "1", "--topics", "t", "--corpus", "c", "--format", "csv"],
            "--format csv",
        ),
        (["--alpha", "1"], "--alpha"),
        (["--alpha", "nan"], "--alpha"),
        (["--splits", "none.jsonl"], "cannot read none.jsonl"),
        (["--splits", "ids.jsonl"], "ids.jsonl, line 1 names the query 'q9'"),
        (["--splits", "malformed.jsonl"], "malformed.jsonl, line 2 is not JSON"),
        (["--measures", "alpha_nDCG@10"], "alpha_nDCG@10"),
        (["--measures", "nDCG@10", "Wonder"], "Wonder"),
        (["--measures", "nDCG@0"], "nDCG@0 must be at least 1"),
    ],
)
def test_wrong_flags_and_files_give_one_sentence_and_no_file(files, capsys, monkeypatch, more, says):
    monkeypatch.chdir(files)
    (files / "loop.trec").symlink_to("loop.trec")
    (files / "folder.png").mkdir()
    (files / "ids.jsonl").write_text('{"qid": "q9", "split": "old"}\n')
    (files / "malformed.jsonl").write_text('{"qid": "q1", "split": "old"}\n{"qid": \n')
    with pytest.raises(SystemExit) as left:
        run(lambda _: call(files, "--output", "table.txt", *more))
    assert left.value.code == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.count("\n") == 1
    assert said.out == "" and not (files / "table.txt").exists()


def test_measures_of_answers_are_in_the_same_table(files, capsys):
    topics = [
        {"_id": "q1", "text": "who", "answers": ["The Beatles"]},
        {"_id": "q2", "text": "what", "answers": ["red green"]},
    ]
    (files / "topics.jsonl").write_text("".join(json.dumps(topic) + "\n" for topic in topics))
    said = [{"qid": "q1", "answer": "beatles!", "score": 1}, {"qid": "q2", "answer": "green blue", "score": 1}]
    (files / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    flags = ["--predictions", str(files / "answers.jsonl"), "--topics", str(files / "topics.jsonl")]
    (files / "splits.tsv").write_text("q1\teasy\nq2\thard\n")
    flags += ["--splits", str(files / "splits.tsv")]
    compare([str(files / "qrels.tsv"), str(files / "one.trec"), "--measures", "RR", "EM@1", "F1@1", *flags])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert lines[0][:4] == ["run", "RR", "EM@1", "F1@1"]
    assert lines[1][:4] == ["one.trec", "0.7500", "0.5000", "0.7500"]
    assert ["0.0000", "0.5000"] in [line[-2:] for line in lines if line[0] == "hard"]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--measures", "EM@1"], ["--predictions"]),
        (["--predictions", "a.jsonl"], ["EM@k"]),
        (["--measures", "EM@1", "--predictions", "a", "b"], ["2 files", "1 runs"]),
        (["--measures", "RR", "EM@1", "--predictions", "a"], ["--topics"]),
        (["--measures", "EM@1", "--predictions", "a", "--topics", "t"], ["no measure of runs"]),
    ],
)
def test_predictions_need_measures_topics_and_one_file_per_run(files, capsys, flags, names):
    with pytest.raises(SystemExit) as left:
        run(lambda _: compare([str(files / "qrels.tsv"), str(files / "one.trec"), *flags]))
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert all(name in said for name in names)


@pytest.fixture
def predicted(files):
    def predicted(measures, said, *, topics="topics.jsonl", more=()):
        lines = [{"_id": "q1", "text": "who", "answers": ["19[0-9]1"]}, {"_id": "q2", "text": "what", "answers": ["x"]}]
        lines.append({"_id": "q3", "text": "not judged", "answers": ["x"]})
        (files / topics).write_text("".join(json.dumps(topic) + "\n" for topic in lines))
        answers = "".join(json.dumps({"qid": qid, "answer": answer}) + "\n" for qid, answer in said.items())
        flags = ["--topics", str(files / topics), "--measures", *measures, "--predictions"]
        for name in ("one", "two"):
            (files / f"{name}.jsonl").write_text(answers)
            flags.append(str(files / f"{name}.jsonl"))
        compare([str(files / "qrels.tsv"), str(files / "one.trec"), str(files / "two.trec"), *flags, *more])

    return predicted


def test_answers_of_curated_topics_are_regular_expressions(predicted, capsys):
    said = {"q1": "1901", "q2": "y"}
    predicted(["RR", "EM@1"], said)
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["one.trec", "2", "0.7500", "0.0000"]
    predicted(["RR", "EM@1"], said, topics="curated.jsonl")
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["one.trec", "2", "0.7500", "0.5000"]
    with pytest.raises(TourError, match="F1@1 compares words"):
        predicted(["RR", "F1@1"], said, topics="curated.jsonl")


def test_predictions_for_unknown_questions_are_refused(predicted, caplog):
    with pytest.raises(TourError, match=r"one\.jsonl has a prediction for 'q9', which is not in the topics"):
        predicted(["RR", "EM@1"], {"q1": "x", "q9": "x"})
    with pytest.raises(TourError, match=r"one\.jsonl has no prediction for a judged question"):
        predicted(["RR", "EM@1"], {"q3": "x"})
    caplog.clear()
    predicted(["RR", "EM@1"], {"q2": "x", "q3": "x"})
    assert caplog.text.count("has predictions for 1 of the 2 judged questions") == 2


def test_measures_stay_in_the_order_given(files, predicted, texts, capsys):
    more = ["--baseline", str(files / "two.trec"), "--show", "1", "--corpus", str(files / "corpus.jsonl")]
    predicted(["EM@1", "Success@1", "F1@1", "RR"], {"q1": "x", "q2": "x"}, more=more)
    out = capsys.readouterr().out
    assert out.split()[2:6] == ["EM@1", "Success@1", "F1@1", "RR"]
    assert "rescued by one.trec against two.trec (EM@1)" in out


@pytest.mark.parametrize("flag", ["--output", "--picture"])
@pytest.mark.parametrize("name", ["qrels.tsv", "one.trec", "one.trec.json"])
def test_inputs_are_never_overwritten(files, flag, name):
    output = files / name
    if flag == "--picture":
        output = files / "link.png"
        output.symlink_to(files / name)
    before = (files / name).read_bytes()
    with pytest.raises(TourError, match="would overwrite the input"):
        call(files, "--baseline", str(files / "one.trec"), flag, str(output))
    assert (files / name).read_bytes() == before


def test_the_report_is_written_before_the_picture(files, monkeypatch):
    report = files / "report.txt"
    seen = []
    monkeypatch.setattr("tour_pyserini.compare.draw_gains", lambda *_, **__: seen.append(report.exists()))
    picture = ["--baseline", str(files / "two.trec"), "--picture", str(files / "gains.png")]
    call(files, *picture, "--output", str(report))
    assert seen == [True]


@pytest.mark.parametrize(
    ("qrels", "warnings"),
    [
        ("q1 0 a 1\nq1 0 b 0\n", 1),  # made from the first run
        ("q1 0 a 1\nq1 0 no-passage 0\n", 0),  # of a whole corpus
        ("q1 0 a 1\nq1 0 z 0\n", 0),  # the first run is not all judged either
        ("q1 0 a 1\nq1 0 b 0\nq1 0 c 0\n", 0),
    ],
)
def test_a_warning_for_runs_that_were_not_judged(tmp_path, caplog, qrels, warnings):
    (tmp_path / "qrels").write_text(qrels)
    (tmp_path / "first").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq7 Q0 y 1 1.0 t\n")
    (tmp_path / "other").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 c 2 1.0 t\n")
    compare([str(tmp_path / name) for name in ("qrels", "first", "other")] + ["--measures", "RR"])
    said = [record.getMessage() for record in caplog.records if "not judged" in record.getMessage()]
    assert len(said) == warnings
    assert all(one.startswith("50 % of the first 20 hits of") and "other" in one for one in said)
