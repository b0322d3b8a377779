"""The collections, models and sizes of the benchmarks, and runs of the search command on them."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.timings import run_module
from tour_pyserini import index
from tour_pyserini.data.run_records import read_record
from tour_pyserini.errors import TourError
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write

NQ = ("nq-wiki", "nq-test")
"""Folder and split of the questions that most benchmarks search."""
TOUR = ("--method", "hard", "--depth", "10", "--iterations", "3")


@dataclass(frozen=True)
class TopicFiles:
    """Files of questions and judgements, and the number of questions."""

    queries: Path
    qrels: Path
    count: int

    def records(self) -> list[dict[str, Any]]:
        """The questions, as JSON objects with `_id` and `text`."""
        return _read_json_lines(self.queries)


@dataclass(frozen=True, kw_only=True)
class BenchmarkSetup:
    """What the benchmarks run on.

    Attributes:
        collections: a folder of collections in BEIR's layout.
        model: the folder of a cross-encoder in fp32.
        work: folder for indexes and runs.
        encoder: the query encoder.
        questions: questions of the measurements that search a real collection.
        pairs: pairs of the measurements that only score.
        rounds: how often each function is timed.
        passages: passages that are encoded.
        passages_from: the corpus that they come from, and that of `searched`; None: that of NQ.
        searched: the flat index that vector stores are compared on; None: that of SciFact.
        sizes: passages of the synthetic collections, ascending.
        seconds: how long a service is overloaded.
        quick: tiny sizes, in this process, to test that everything works; the figures mean nothing.
    """

    collections: Path
    model: Path
    work: Path
    encoder: str = "default"
    questions: int = 100
    pairs: int = 256
    rounds: int = 3
    passages: int = 3000
    passages_from: Path | None = None
    searched: Path | None = None
    sizes: tuple[int, ...] = (100_000, 1_000_000)
    seconds: int = 300
    quick: bool = False

    def corpus(self, name: str) -> Path:
        """The corpus of a collection."""
        path = self.collections / name / "corpus.jsonl"
        if not path.is_file():
            raise TourError(f"{path} does not exist; give a folder of collections with --collections.")
        return path

    def index(self, name: str) -> Path:
        """A flat index of a collection, built on first use."""
        folder = self.work / "indexes" / f"{name}.{Path(self.encoder).name}"
        if not folder.exists():
            flags = ("--corpus", self.corpus(name), "--encoder", self.encoder, "--index", folder)
            index.main(list(map(str, flags)))
        return folder

    def topics(self, name: str, split: str) -> TopicFiles:
        """Files with the first judged questions of a split, and their judgements."""
        qrels = self.collections / name / "qrels" / f"{split}.tsv"
        head, *judgements = qrels.read_text(encoding="utf-8").splitlines(keepends=True)
        judged = {line.split("\t")[0] for line in judgements}
        path = self.collections / name / f"queries.{split}.jsonl"
        records = _read_json_lines(path if path.is_file() else self.collections / name / "queries.jsonl")
        questions = [record for record in records if record["_id"] in judged][: self.questions]
        kept = {record["_id"] for record in questions}
        stem = self.work / "topics" / f"{name}.{split}.{len(kept)}"
        files = TopicFiles(Path(f"{stem}.jsonl"), Path(f"{stem}.tsv"), len(kept))
        with atomic_write(files.queries) as file:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in questions)
        with atomic_write(files.qrels) as file:
            file.writelines([head, *(line for line in judgements if line.split("\t")[0] in kept)])
        return files


class TimedSearch(NamedTuple):
    """A run file, the seconds of the whole command, and the costs in the run's record."""

    run: Path
    seconds: float
    costs: Costs

    @property
    def searching(self) -> float:
        """Seconds of all stages of the search, without loading models and starting Java."""
        return sum(self.costs.seconds.values())


@lru_cache
def timed_search(setup: BenchmarkSetup, name: str, *flags: str, collection: tuple[str, str] = NQ) -> TimedSearch:
    """Run the search command with the fp32 cross-encoder and more flags, once for each set of them."""
    folder, split = collection
    topics, run = setup.topics(folder, split), setup.work / "runs" / f"{folder}.{name}.trec"
    arguments = [
        *("--topics", topics.queries, "--index", setup.index(folder), "--corpus", setup.corpus(folder)),
        *("--encoder", setup.encoder, "--reranker", setup.model, "--hits", "100", "--output", run, *flags),
    ]
    seconds = run_module("tour_pyserini.search", arguments, here=setup.quick).seconds
    costs = Costs.from_record((read_record(run) or {}).get("costs"))
    return TimedSearch(run, seconds, costs)


def tour_search(setup: BenchmarkSetup) -> TimedSearch:
    """TouR on NQ with k = 10 and T = 3, without a score cache, with a trace."""
    return timed_search(setup, "hard", *TOUR, "--no-cache", "--trace", str(tour_trace(setup)))


def tour_trace(setup: BenchmarkSetup) -> Path:
    """The path of the trace that `tour_search` writes."""
    return setup.work / "runs" / "hard.trace.jsonl"


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
