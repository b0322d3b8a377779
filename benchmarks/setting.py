"""What is measured on, and how much of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tour_pyserini import index
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One run of the benchmarks.

    Attributes:
        collections: a folder of collections in BEIR's layout.
        model: the folder of a cross-encoder in fp32.
        work: where indexes and runs are made.
        encoder: the query encoder.
        questions: questions of the measurements that search a real collection.
        pairs: pairs of the measurements that only score.
        rounds: how often each contender has its turn.
        quick: sizes that show that everything works, in this process; the figures mean nothing.
    """

    collections: Path
    model: Path
    work: Path
    encoder: str = "default"
    questions: int = 100
    pairs: int = 256
    rounds: int = 3
    quick: bool = False

    def corpus(self, name: str) -> Path:
        """The passages of a collection."""
        path = self.collections / name / "corpus.jsonl"
        if not path.is_file():
            raise TourError(f"there is no {path}; name a folder of collections with --collections.")
        return path

    def index(self, name: str) -> Path:
        """A flat index of a collection, made on first use."""
        folder = self.work / "indexes" / f"{name}.{Path(self.encoder).name}"
        if not folder.exists():
            flags = ("--corpus", self.corpus(name), "--encoder", self.encoder, "--index", folder)
            index.main(list(map(str, flags)))
        return folder

    def topics(self, name: str, split: str) -> "Topics":
        """The first judged questions of a split, and their judgements."""
        qrels = self.collections / name / "qrels" / f"{split}.tsv"
        head, *judgements = qrels.read_text(encoding="utf-8").splitlines(keepends=True)
        judged = {line.split("\t")[0] for line in judgements}
        questions = [one for one in _queries(self.collections / name, split) if one["_id"] in judged]
        kept = {one["_id"] for one in questions[: self.questions]}
        place = self.work / "topics" / f"{name}.{split}.{len(kept)}"
        with atomic_write(f"{place}.jsonl") as file:
            file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in questions[: self.questions])
        with atomic_write(f"{place}.tsv") as file:
            file.writelines([head, *(line for line in judgements if line.split("\t")[0] in kept)])
        return Topics(Path(f"{place}.jsonl"), Path(f"{place}.tsv"), len(kept))


@dataclass(frozen=True)
class Topics:
    """Files of questions and judgements, and how many questions there are."""

    queries: Path
    qrels: Path
    count: int


def _queries(folder: Path, split: str) -> list[dict[str, Any]]:
    own = folder / f"queries.{split}.jsonl"
    path = own if own.is_file() else folder / "queries.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
