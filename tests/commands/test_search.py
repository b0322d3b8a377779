"""The search command on a small collection."""

import json
import os
import shutil
import subprocess
import sys

import faiss
import numpy as np
import pytest
from tiny_encoder import save_reranker
from toy_collection import ToyCollection

from tour_pyserini.search import main

# A re-ranker on disk that loads in no time: see `tiny_reranker`.
pytestmark = pytest.mark.usefixtures("own_cache")


class Case:
    """A collection on disk and the flags that search it."""

    def __init__(self, tmp_path, reranker):
        self.path = tmp_path
        self.collection = collection = ToyCollection(tmp_path)
        letters = {docid: " ".join("abcdefghij"[int(digit)] for digit in docid[1:]) for docid in collection.docids}
        self.files = collection.save(letters)
        self.output = tmp_path / "runs" / "a.trec"
        self.reranker = reranker

    def flags(self, **changes):
        own = {"reranker": self.reranker, "backend": "torch", "output": self.output, "hits": 30}  # torch: no export
        flags = {name.replace("_", "-"): value for name, value in {**self.files, **own, **changes}.items()}
        return [str(word) for name, value in flags.items() if value is not None for word in (f"--{name}", value)]

    def run(self, *more, **changes):
        main([*self.flags(**changes), *more])
        return self.output.read_text()


@pytest.fixture(scope="session")
def tiny_reranker(tmp_path_factory):
    """A cross-encoder with random weights, which knows letters."""
    return save_reranker(tmp_path_factory.mktemp("reranker"))


@pytest.fixture
def case(tmp_path, tiny_reranker):
    return Case(tmp_path, tiny_reranker)


def lines_of(run):
    return [line.split() for line in run.splitlines()]


def test_the_same_inputs_give_the_same_bytes_with_and_without_cache(case):
    first = case.run()
    assert case.run() == first
    assert case.run("--no-cache") == first
    assert case.run(batch_size=2) == first
    record = json.loads((case.output.parent / "a.trec.json").read_text())
    assert record["costs"]["queries"] == 7
    assert record["costs"]["scored"] == 0
    assert record["costs"]["pairs"] > 7 * 5


def test_runs_are_those_of_pyserinis_own_command(case, tmp_path):
    """Dense search line by line; feedback, and a search with the optimised vectors, in their order."""
    prf = ["--prf-depth", "5", "--prf-method", "avg"]
    moved = {"method": "hard", "score_weight": 0, "depth": 5, "learning_rate": 0.5}  # lambda = 0: the retrieval's order
    ours = [
        case.run("--tag", "Faiss", method="dense", reranker=None, corpus=None),
        case.run("--tag", "Faiss", *prf, reranker=None, corpus=None),
        case.run("--tag", "Faiss", output_queries=tmp_path / "optimised", **moved),
    ]
    same = ["--topics", case.files["topics"], "--index", case.collection.folder, "--hits", "30"]
    given = [(case.path / "queries", []), (case.path / "queries", prf), (tmp_path / "optimised", [])]
    flags = [
        [*same, "--encoded-queries", folder, "--output", tmp_path / f"{number}.trec", *more]
        for number, (folder, more) in enumerate(given)
    ]
    code = (
        "import json, runpy, sys; from tour_pyserini.support.pyserini import ensure_java; ensure_java()\n"
        "for flags in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['faiss', *flags]; runpy.run_module('pyserini.search.faiss', run_name='__main__')"
    )
    words = json.dumps([list(map(str, one)) for one in flags])
    subprocess.run([sys.executable, "-c", code, words], check=True, capture_output=True)
    theirs = [(tmp_path / f"{number}.trec").read_text() for number in range(3)]
    assert ours[0] == theirs[0]
    assert [[row[:4] for row in lines_of(run)] for run in ours] == [
        [row[:4] for row in lines_of(run)] for run in theirs
    ]


def test_only_judged_topics_are_searched(case, tmp_path):
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq3\td1\t1\nq5\td1\t0\n")
    assert {row[0] for row in lines_of(case.run(qrels=tmp_path / "qrels.tsv"))} == {"q3", "q5"}


def write(name, text):
    def change(case):
        (case.path / name).write_text(text)
        return {name.partition(".")[0]: case.path / name}

    return change


def broken_index(case):
    (case.collection.folder / "index").write_bytes(b"not an index")
    return {}


def other_dimension(case):
    index = faiss.IndexFlatIP(4)
    index.add(np.ones((1, 4), dtype=np.float32))
    faiss.write_index(index, str(case.collection.folder / "index"))
    (case.collection.folder / "docid").write_text("d0\n")
    return {}


def damaged_checkpoint(case):
    folder = shutil.copytree(case.reranker, case.path / "damaged")
    os.truncate(folder / "model.safetensors", 100)
    return {"reranker": folder}


RUN = write("run.trec", "q0 Q0 d1 1 1.0 t\n")
BAD = [
    (lambda case: {"index": case.path}, "index tour_pyserini.index"),
    (broken_index, "index"),
    (other_dimension, "dimensions 8 4"),
    (write("corpus.jsonl", '{"_id": "x", "text": "y"}\n'), "corpus.jsonl"),
    (write("topics.tsv", "q1\tquery 1\nq2\t \n"), "topics.tsv line 2"),
    (write("qrels.txt", "q1 0 d1 1\nq1 d1\n"), "qrels.txt line 2"),
    (write("topics.tsv", "q1\tsomething else\n"), "q1 something else"),
    (damaged_checkpoint, "damaged"),
    (lambda case: {"reranker": "default"}, "default torch onnx"),  # torch, which is asked for, runs no graph
    (lambda case: {"ef_search": 10}, "HNSW"),
    (lambda case: {"method": "hard", "learning_rate": 1e38}, "diverged"),
    (lambda case: {"corpus": None}, "--corpus missing reads"),
    (lambda case: {"corpus": None, "vectors": "encode", "method": "rocchio"}, "--corpus missing --vectors"),
    (lambda case: {"max_words": 3}, "--max-words not phrase"),
    (lambda case: {"run": "none.trec"}, "none.trec"),
    (write("run.trec", "q0 Q0 other 1 1.0 t\n"), "'other'"),
    (lambda case: {**RUN(case), "index": None}, "--encoded-queries"),
    (lambda case: {**RUN(case), "index": None, "encoded_queries": None, "sparse": "index"}, "--index"),
    (lambda case: {"index2": "nowhere"}, "'nowhere'"),
    (lambda case: {"method": "dense", "budget": 20}, "'budget'"),
    (lambda case: {"filter": '{"even": null}'}, "gt"),
    (lambda case: {"trace": case.output}, "a.trec"),
    (lambda case: {"trace": f"{case.output}.json"}, "a.trec.json record"),
    (lambda case: {"output": case.path}, "folder"),
    (lambda case: {"output": case.files["corpus"]}, "corpus.jsonl input"),
]


@pytest.mark.parametrize(("change", "says"), BAD, ids=[says for _, says in BAD])
def test_bad_input_is_one_sentence_and_exit_code_2(case, refused, change, says):
    case.output.parent.mkdir()
    case.output.write_text("an earlier run\n")
    refused(main, case.flags(**change(case)), *says.split())


def test_help_has_the_usual_flags_as_the_user_would_type_them_and_help_all_every_flag(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/tour", "search"])
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main([flag])
        said = capsys.readouterr().out
        assert "--budget" in said and ("--rocchio-alpha" in said) == (flag == "--help-all")
        assert "usage: tour search" in said and "python -m tour_pyserini.search" not in said


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--topics", "demo", "--budjet", "30"], "--budget"),
        (["--topic=demo"], "--topics"),  # though --topics is missing
        (["--topics", "demo", "--preset", "mixd"], "mixed"),
    ],
)
def test_a_misspelt_flag_is_one_line_with_the_nearest(capsys, words, meant):
    with pytest.raises(SystemExit) as left:
        main(words)
    said = capsys.readouterr().err
    assert left.value.code == 2 and f"did you mean {meant}?" in said and said.count("\n") == 1
