"""The commands and functions that read files of every format, run in this process."""

import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from toy_collection import DIMENSION

from tour_pyserini.errors import TourError


def run_command(name: str, *words: object, **flags: object) -> None:
    """Run a command of the package in this process; `flags` are its flags."""
    main = importlib.import_module(f"tour_pyserini.{name}").main
    given = [str(word) for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", value)]
    main([*map(str, words), *given])


def search(folder: Path, **flags: object) -> None:
    """Search with Rocchio and encoded queries, which needs no model."""
    given = {
        "topics": folder / "topics.tsv",
        "index": folder / "index",
        "encoded_queries": folder / "encoded",
        "method": "rocchio",
        "output": folder / "out" / "run.trec",
        **flags,
    }
    run_command("search", **given)
    for line in Path(str(given["output"])).read_text(encoding="utf-8").split("\n")[:-1]:
        if len(line.split()) != 6:
            raise AssertionError(f"a line of the run has not six columns: {line[:100]!r}")


def compare_with(qrels: str = "qrels.trec", **files: str) -> Callable[[Path], object]:
    """Compare the two runs; files are named in the folder."""

    def read(folder: Path) -> None:
        flags = {flag: folder / name for flag, name in files.items()}
        run_command(
            "compare", folder / qrels, folder / "a.trec", folder / "b.trec", baseline=folder / "b.trec", **flags
        )

    return read


def search_with(**files: str) -> Callable[[Path], object]:
    """Search; files are named in the folder."""
    return lambda folder: search(folder, **{flag: folder / name for flag, name in files.items()})


def answers_with(topics: str) -> Callable[[Path], object]:
    """Judge a run and the whole corpus by answers."""

    def read(folder: Path) -> None:
        for regex in ("off", "on"):
            flags = {"corpus": folder / "corpus.jsonl", "output": folder / "out.qrels", "regex": regex, "processes": 1}
            run_command("answers", topics=folder / topics, **flags)

    return read


def measure_predictions(folder: Path) -> None:
    """Measure predicted answers of one run."""
    words = ["--measures", "Success@1", "EM@1", "--predictions", folder / "predictions.jsonl"]
    run_command("compare", folder / "qrels.trec", folder / "a.trec", *words, topics=folder / "topics.jsonl")


def read_trace(folder: Path) -> None:
    """The page of a trace."""
    files = {"trace": "trace.jsonl", "topics": "topics.tsv", "corpus": "corpus.jsonl", "qrels": "qrels.trec"}
    run_command("page", **{flag: folder / name for flag, name in files.items()}, output=folder / "page.html")


def read_settings(folder: Path) -> None:
    """Read the settings; they are not used, because a valid number may ask for years of work."""
    from tour_pyserini import TourConfig

    TourConfig.load(folder / "settings.toml")


def plan_experiment(folder: Path) -> None:
    """List an experiment and plan its searches."""
    flags = {"data": folder, "runs": folder / "runs", "indexes": folder / "indexes"}
    run_command("experiment", folder / "small.yaml", "--list")
    run_command("experiment", folder / "small.yaml", "--dry-run", **flags)


def report_experiment(folder: Path) -> None:
    """Report from an archive, and unpack it."""
    flags = {"data": folder, "runs": folder / "runs", "indexes": folder / "indexes"}
    run_command("experiment", folder / "small.yaml", "--report", **flags, output=folder / "report")
    run_command("experiment", folder / "small.yaml", "--unpack", **flags)


def read_index_record(folder: Path) -> None:
    """Read the settings of an index, and use its vectors for a search."""
    from tour_pyserini.stores.index_folder import read_index_settings

    read_index_settings(folder / "index")
    search(folder, vectors=folder / "index")


def search_phrases(folder: Path) -> None:
    """Search phrases without labels."""
    search(
        folder,
        index=folder / "phrases",
        corpus=folder / "passages.jsonl",
        method="dense",
        encoded_queries=folder / "encoded",
    )


def use_scores(folder: Path) -> None:
    """Every action on a score cache."""
    for action in ("verify", "stats"):
        with contextlib.suppress(TourError):
            run_command("cache", action, cache=folder / "scores.sqlite")
    with contextlib.suppress(TourError):
        run_command("cache", "export", cache=folder / "scores.sqlite", output=folder / "scores.jsonl")


def use_adapter(folder: Path) -> None:
    """Correct a vector with an adapter."""
    from tour_pyserini.encoders.query_adapter import read_adapter

    read_adapter(folder / "a.adapter").adapt(np.ones((1, DIMENSION), dtype=np.float32))


def train_examples(folder: Path) -> None:
    """Training examples with passages of a corpus."""
    from tour_pyserini.training.training_examples import read_examples

    read_examples(folder / "train.jsonl", folder / "corpus.jsonl", folder / "qrels.trec")
