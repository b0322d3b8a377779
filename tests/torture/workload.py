"""The commands that are disturbed, the files that they read, and what they write when nothing disturbs them."""

import contextlib
import importlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import tiny_encoder
import tiny_phrases
from forked import Process, command
from toy_collection import ToyCollection

EARLIER = b"earlier output\n"
EXPERIMENT = """title: Small
measures: [nDCG@10, R@100]
hits: 20
collections:
  toy: {corpus: "${DATA}/corpus.jsonl", topics: "${DATA}/topics.tsv", qrels: "${DATA}/qrels.trec", limit: 4}
encoders:
  tiny: {index: {encoder: "${MODELS}/encoder", threads: 1}}
indexes:
  flat: {name: exact}
rerankers:
  none: {flags: {}}
conditions:
  dense: {flags: {method: dense}}
  rocchio: {flags: {method: rocchio}}
tables:
  main: {title: Main, conditions: [dense, rocchio], baselines: [dense]}
"""

FINISHED = ("no scores of a model 'constant'", "trained already exists")
QUESTIONS = [("who got the first prize", ["Wilhelm Röntgen"], "a"), ("which river", ["Rhine", "the Rhine"], "b")]


class Step(NamedTuple):
    """A command with its arguments.

    Attributes:
        name: the command, and more if there are several of it.
        arguments: its arguments.
        earlier: whether its output files exist before, with other content.
    """

    name: str
    arguments: list[str]
    earlier: bool = True

    @property
    def work(self) -> Callable[[], object]:
        """What a process does to run it."""
        return command(self.name.split()[0], self.arguments)


class Reference(NamedTuple):
    """What a step does if nothing disturbs it: its exit code, its seconds, the files it leaves, and those that differ
    from one time to the next (records with times)."""

    code: int
    seconds: float
    files: dict[str, bytes]
    volatile: set[str]


class Workload:
    """A folder `case` that is put back into the same state before each step."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.case, self._template = folder, folder / "case", folder / "template"
        self._references: dict[str, Reference] = {}
        os.environ["TOUR_PYSERINI_CACHE"] = str(self.case / "cache")
        made = Process(self._make).wait()
        assert made.code == 0, made.stderr
        self.template_files = set(_content(self._template))

    @property
    def steps(self) -> list[Step]:
        """All steps."""
        case, models = self.case, self.folder / "models"
        topics, corpus, index = case / "topics.tsv", case / "corpus.jsonl", case / "index"
        labels = ["--reranker", models / "reranker", "--backend", "torch"]
        encoded = ["--topics", topics, "--index", index, "--encoded-queries", case / "encoded"]
        folders = ["--data", case, "--runs", case / "runs", "--indexes", case / "indexes"]
        answers = ["--topics", case / "topics.jsonl", "--corpus", corpus, "--processes", 1]
        trace = ["--trace", case / "trace.jsonl", "--topics", topics, "--corpus", corpus]
        data = [models / "questions.jsonl", models / "corpus.jsonl"]
        training = ["--base", models / "base", "--data", *data, "--validation", *data, "--max-length", 64]
        training += ["--threads", 1, "--batch-size", 2, "--max-steps", 3, "--validate-every", 1]
        scores = ["--cache", case / "scores.sqlite"]
        changes = ["--add", case / "add.jsonl", "--delete", case / "delete"]
        rows = [
            ("search", *encoded, "--method", "rocchio", "--output", case / "r.trec", "--trace", case / "r.jsonl"),
            ("search labels", *encoded, "--corpus", corpus, *labels, "--output", case / "l.trec"),
            ("search text", "--topics", topics, "--index", case / "tiny", "--method", "dense", "--output-queries",
             case / "queries", "--output", case / "t.trec"),
            ("search phrases", "--topics", topics, "--index", case / "phrases", "--method", "dense",
             "--corpus", models / "corpus.jsonl", "--encoder", models / "phrases", "--output", case / "p.trec"),
            ("index", "--corpus", corpus, "--encoder", models / "encoder", "--index", case / "new", "--threads", 1,
             "--overwrite"),
            ("index phrases", "--phrases", "--corpus", models / "corpus.jsonl", "--encoder", models / "phrases",
             "--index", case / "tokens", "--threads", 1, "--overwrite"),
            ("answers", *answers, "--output", case / "answers.qrels"),
            ("compare", case / "qrels.trec", case / "a.trec", case / "b.trec", "--baseline", case / "b.trec",
             "--output", case / "compare.txt", "--picture", case / "gains.png"),
            ("page", *trace, "--output", case / "page.html"),
            ("convert json", "json", *answers, "--run", case / "a.trec", "--output", case / "dpr.json"),
            ("convert splits", "splits", "--topics", case / "topics.jsonl", "--train", case / "list.json",
             "--output", case / "s.tsv"),
        ]  # fmt: skip
        rows_without_earlier = [
            ("cache prune", "prune", *scores, "--model", "constant"),
            ("cache stats", "stats", *scores),
            ("index add", "--index", case / "tiny", "--corpus", corpus, *changes, "--threads", 1),
            ("experiment", case / "small.yaml", *folders, "--output", case / "report"),
            ("train", "phrase-encoder", *training, "--output", case / "trained"),
        ]
        return [
            Step(name, [str(word) for word in words], earlier)
            for earlier, some in ((True, rows), (False, rows_without_earlier))
            for name, *words in some
        ]

    def chosen(self, random: Random, cases: int) -> list[Step]:
        """This many steps: all in random order, then all again."""
        order = random.sample(self.steps, len(self.steps))
        return [order[number % len(order)] for number in range(cases)]

    def reference(self, step: Step) -> Reference:
        """What the step does if nothing disturbs it; found once."""
        if step.name not in self._references:
            results = []
            for _ in range(2):
                self.reset()
                outcome = Process(step.work).wait()
                assert outcome.fault is None, f"{step.name}: {outcome.stderr}"
                results.append((outcome, self.files()))
            (_, one), (outcome, two) = results
            volatile = {name for name in one | two if one.get(name) != two.get(name)}
            self._references[step.name] = Reference(outcome.code, outcome.seconds, two, volatile)
        return self._references[step.name]

    def reset(self, step: Step | None = None) -> None:
        """Put the folder back; with a step whose output existed before, write that."""
        shutil.rmtree(self.case, ignore_errors=True)
        shutil.copytree(self._template, self.case)
        if step is not None and step.earlier:
            for name in set(self.reference(step).files) - self.template_files:
                (self.case / name).parent.mkdir(parents=True, exist_ok=True)
                (self.case / name).write_bytes(EARLIER)

    def files(self) -> dict[str, bytes]:
        """The content of the folder without the cache."""
        return _content(self.case)

    def torn(self, step: Step) -> str | None:
        """A file that is neither as before nor complete, if there is one."""
        reference = self.reference(step)
        states: dict[str, set[str]] = {}
        for name, content in self.files().items():
            if name in self.template_files or ".partial/" in name or name.endswith(("-wal", "-shm")):
                continue
            if content != EARLIER and content != reference.files.get(name, content):
                if name not in reference.volatile:
                    return f"{name} is torn ({len(content)} bytes)"
                if name.endswith(".json"):
                    try:
                        json.loads(content)
                    except ValueError:
                        return f"{name} is torn ({len(content)} bytes)"
            states.setdefault(name.partition("/")[0], set()).add("before" if content == EARLIER else "after")
        for name in ("new", "tokens"):
            if step.earlier and len(states.get(name, ())) > 1:
                return f"the folder {name} has old and new files"
        return None

    def left(self) -> str | None:
        """Temporaries with something unfinished in them, in the folder and in the cache, if there are any.

        A process that is killed when its file is in place leaves a folder with its lock alone. The next write to that
        place removes it, but the same command again may find the file, such as a graph in the cache, and not write.
        """
        found = self.case.rglob("*.unfinished")
        names = [path.name for path in found if any(left.name != ".lock" for left in path.iterdir())]
        return f"left {names}" if names else None

    def repeated(self, step: Step) -> str | None:
        """Run the step again; what is wrong with what it leaves, if anything."""
        reference = self.reference(step)
        outcome = Process(step.work).wait()
        # It may have finished before: then there is nothing left to do, and it says so.
        finished = any(words in outcome.stderr for words in FINISHED) and outcome.code == 2
        if outcome.code != reference.code and not finished:
            return f"the same command again: exit code {outcome.code}, {outcome.stderr[-300:]}"
        if not finished and (left := self.left()):
            return f"the same command again {left}"
        files = self.files()
        if step.name == "cache prune":  # an SQLite file has other bytes each time
            return None
        wrong = [*self._other(step), *(name for name in files if name not in reference.files)]
        return f"the same command again left {wrong[0]} in another state" if wrong else None

    def finished(self, step: Step) -> bool:
        """Whether all files are those that the step leaves when nothing disturbs it."""
        return not self._other(step) and not self.left()

    def _other(self, step: Step) -> list[str]:
        """The names of files that are missing or have another content than in the reference."""
        reference, files = self.reference(step), self.files()
        return [n for n, content in reference.files.items() if n not in reference.volatile and files.get(n) != content]

    def _make(self) -> None:
        """Write models and collection; in a process of its own, because models keep threads."""
        import torch
        from transformers import BertModel

        models, template = self.folder / "models", self._template
        (models / "encoder").mkdir(parents=True)
        tiny_encoder.save_encoder(models / "encoder")
        tiny_phrases.save_encoder(models / "phrases", pooling="mean")
        tiny_phrases.save_reranker(models / "reranker")
        tiny_phrases.write_corpus(models / "corpus.jsonl")
        torch.manual_seed(5)
        tiny_phrases.save_tokenizer(models / "base", lower=True)
        BertModel(tiny_phrases.configuration(hidden=32, spread=0.1)).save_pretrained(models / "base")
        lines = [
            {"_id": f"q{number}", "question": question, "answers": answers, "gold": docid}
            for number, (question, answers, docid) in enumerate(QUESTIONS)
        ]
        (models / "questions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        _write_collection(template)
        searched = ["--topics", template / "topics.tsv", "--index", template / "index", "--method", "rocchio"]
        searched += ["--encoded-queries", template / "encoded", "--output", self.folder / "traced.trec"]
        _run("search", *searched, "--trace", template / "trace.jsonl")
        _write_scores(template)
        for corpus, encoder, index in (
            (template / "corpus.jsonl", models / "encoder", template / "tiny"),
            (models / "corpus.jsonl", models / "phrases", template / "phrases"),
        ):
            more = ["--phrases"] * (index.name == "phrases")
            _run("index", "--corpus", corpus, "--encoder", encoder, "--index", index, "--threads", 1, *more)
        (template / "small.yaml").write_text(EXPERIMENT.replace("${MODELS}", str(models)))
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.case)


def _run(name: str, *words: object) -> None:
    importlib.import_module(f"tour_pyserini.{name}").main([str(word) for word in words])


def _content(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.partition("/")[0] != "cache" and ".unfinished/" not in name and path.is_file():
            found[name] = path.read_bytes()
    return found


def _write_collection(folder: Path) -> None:
    """A corpus, topics of every format, judgements, two runs with records, an index and encoded queries."""
    from tour_pyserini.encoders.query_vectors import write_encoded_queries

    folder.mkdir(parents=True, exist_ok=True)
    toy = ToyCollection(folder)
    documents = [{"_id": docid, "title": f"title {docid}", "text": text} for docid, text in toy.texts.items()]
    _write_lines(folder / "corpus.jsonl", [json.dumps(document) for document in documents])
    _write_lines(folder / "add.jsonl", [json.dumps(document | {"text": "a new text"}) for document in documents[:5]])
    _write_lines(folder / "delete", [document["_id"] for document in documents[5:8]])
    pairs = list(zip(toy.q_ids, toy.queries, strict=True))
    _write_lines(folder / "topics.tsv", [f"{qid}\t{text}" for qid, text in pairs])
    answers = {qid: [f"passage d{i}", "d1"] for i, (qid, _) in enumerate(pairs)}
    records = [{"_id": qid, "question": text, "answers": answers[qid]} for qid, text in pairs]
    _write_lines(folder / "topics.jsonl", [json.dumps(record) for record in records])
    (folder / "list.json").write_text(json.dumps(records))
    _write_lines(folder / "qrels.trec", [f"{qid} 0 d{i} {i % 3}" for qid in toy.q_ids for i in range(4)])
    for name in ("a", "b"):
        hits = [f"{qid} Q0 d{i} {i + 1} {9 - i / 2:.6f} {name}" for qid in toy.q_ids for i in range(5)]
        _write_lines(folder / f"{name}.trec", hits)
    vectors = np.stack([toy.encoder.encode(query) for query in toy.queries])
    write_encoded_queries(folder / "encoded", toy.q_ids, toy.queries, vectors)


def _write_scores(folder: Path) -> None:
    """A score cache with a few scores."""
    from tour_pyserini.rerankers.score_cache import CachedReranker

    class Constant:
        fingerprint, name = "constant", "constant"

        def predict(self, pairs: list[tuple[str, str]]) -> np.ndarray:
            return np.arange(len(pairs), dtype=float)

    with contextlib.closing(CachedReranker(Constant(), folder / "scores.sqlite")) as cache:
        cache.predict([(f"query {i}", f"passage {i}") for i in range(40)])


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
