from pathlib import Path

import numpy as np
import pytest
from ir_measures import Qrel

from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation import tables
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer, measure_runs
from tour_pyserini.evaluation.tables import FORMATS, Table, examples, means_table, origins_table, split_table

LINES = [["a_b.trec", "P@5", "-0.1250", "*"], ["c,d|e.trec", "RR", "+0.5000", ""]]
HEAD = ["run", "measure", "difference", "sign"]
TABLE = Table([HEAD, *LINES], words=2, title="Against base: 100% * sure", legend="*: sure")


@pytest.mark.parametrize(
    ("name", "title", "line"),
    [
        ("text", "Against base: 100% * sure", "a_b.trec    P@5         -0.1250     *"),
        ("markdown", r"Against base: 100% \* sure", r"| c,d\|e.trec | RR | +0.5000 |  |"),
        ("latex", "% Against base: 100% * sure", r"a\_b.trec & P@5 & -0.1250 & * \\"),
        ("csv", "run,measure,difference,sign", '"c,d|e.trec",RR,+0.5000,'),
    ],
)
def test_each_format_of_a_table(name, title, line):
    written = FORMATS[name](TABLE).splitlines()
    assert written[0] == title and line in written
    assert (written[-1].endswith("*: sure") or written[-1] == r"\*: sure") == (name != "csv")


def test_a_wide_table_is_cut_into_parts_with_the_words_in_each(monkeypatch):
    monkeypatch.setattr(tables, "WIDTH", 32)
    assert FORMATS["text"](TABLE).splitlines()[2:9] == [
        "run         measure  difference",
        "a_b.trec    P@5         -0.1250",
        "c,d|e.trec  RR          +0.5000",
        "",
        "run         measure  sign",
        "a_b.trec    P@5         *",
        "c,d|e.trec  RR",
    ]
    assert max(map(len, FORMATS["text"](TABLE._replace(title="word " * 30)).splitlines())) <= 32


def test_means_of_runs_and_of_splits_by_hand(tmp_path):
    scorer = Scorer(["Success@1"], [Qrel(query, "a", 1) for query in ("q1", "q2", "q3", "q4")])
    hits = {"one": ("q1", "q2"), "two": ("q1", "q2", "q3", "q4")}
    for run, queries in hits.items():
        (tmp_path / run).write_text("".join(f"{query} Q0 a 1 1.0 t\n" for query in queries))
    runs = measure_runs(scorer, [tmp_path / run for run in hits])
    costs = ["labels/query", "updates/query"]
    assert means_table(runs[1:]).cells == [["run", "Success@1", *costs], ["two", "1.0000", "-", "-"]]
    cells = [line[1:3] for line in means_table(runs).cells]
    assert cells == [["answered", "Success@1"], ["2", "0.5000"], ["4", "1.0000"]]
    splits = {"first": {"q1", "q2", "q3"}, "third": {"q3", "unjudged"}, "nobody": {"unjudged"}}
    assert [" ".join(line) for line in split_table(scorer, runs, splits).cells[1::2]] == [
        *("first one 3 0.6667", "third one 1 0.0000", "nobody one 0 -", "(no split) one 1 0.0000")  # q4
    ]
    with pytest.raises(TourError, match="none of the queries"):
        split_table(scorer, runs, {"first": {"unjudged"}})


def test_what_the_records_say_about_fairness():
    def record(config="method=rerank depth=30", pairs=60, **changes):
        files = {"topics": {"path": "t.tsv"}, "index": {"path": "indexes/a"}} | changes
        models = {"reranker": "onnx:" + "0123456789abcdef" * 4}
        return {"config": config, "files": files, "models": models, "costs": {"queries": 2, "pairs": pairs}}

    def table(records, *baseline):
        runs = [MeasuredRun(name, Path(name), {}, {}, np.ones(1), record) for name, record in records.items()]
        return origins_table(runs, *baseline)

    of_experiment = {"settings": "--reranker default", "files": {"index encoder a": "0f"}}
    assert table({"old": {"costs": {}}, "an experiment's": record() | of_experiment}) is None
    same = table({"one": record(), "two": record(config="method=tour")})
    assert [line[1:] for line in same.cells[1:]] == [[m, "a", "onnx:01234567", "30.0"] for m in ("rerank", "tour")]
    assert same.legend == ""
    other = table({"one": record(), "two": record(sparse={"path": "indexes/a/bm25"}, index2={"name": "b"})})
    assert other.cells[2][2] == "a + bm25 + b" and "signals of two. " in other.legend
    own = table({"one": {**record(), "command": ["search", "--reranker", "models/mine", "--hits", "9"]}})
    assert own.cells[1][3] == "mine (01234567)"
    runs = {"one": record(), "two": record(pairs=4), "three": record(pairs=4)}
    assert "labels/query of two, three. " in table(runs).legend
    assert "labels/query of one. " in table(runs, "three").legend


QUERIES = {f"q{at}": f"question {at}" for at in range(1, 5)}
TEXTS = {"a": "an  apple\nfalls " + "far " * 50, "b": "a ball", "c": "a cat"}


@pytest.fixture
def runs_and_qrels(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 b 1\nq2 0 x 2\nq3 0 c 1\nq3 0 a 0\nq4 0 a 1\n")
    lists = {"base": {"q1": "ba", "q2": "b", "q3": "ca", "q4": "bca"}, "run": {"q1": "ab", "q3": "ac", "q4": "a"}}
    for run, found in lists.items():
        hits = [f"{q} Q0 {d} {rank} {-rank} t\n" for q, docids in found.items() for rank, d in enumerate(docids, 1)]
        (tmp_path / run).write_text("".join(hits))
    qrels = read_qrels(tmp_path / "qrels")
    return *measure_runs(Scorer(["RR"], qrels), [tmp_path / "base", tmp_path / "run"]), qrels


def show(runs_and_qrels, shown=1, queries=QUERIES):
    baseline, other, qrels = runs_and_qrels
    return examples(baseline, [other], qrels, shown=shown, queries=queries, texts=TEXTS)


def test_the_largest_gain_and_the_largest_loss(runs_and_qrels):
    lines = show(runs_and_qrels).splitlines()
    gained, lost = lines[2:6], lines[9:]
    assert gained[0].split() == ["+0.6667", "q4", "question", "4"] and "a 3 -> 1" in gained[1]
    assert gained[3].split()[:3] == ["after", "*", "a"] and gained[3].endswith("far ...") and len(gained[3]) < 190
    assert lost[0].startswith("-1.0000  q2") and "b 1 -> -, x - -> -" in lost[1] and "no hits" in lost[3]
    with pytest.raises(TourError, match="query 'q2' is judged but not in the topics"):
        show(runs_and_qrels, queries={"q4": "question 4"})
