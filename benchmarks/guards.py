"""What the checks of files and the care for labels cost: the same work with and without them, in turns."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, TOUR, BenchmarkSetup
from benchmarks.labelling_speed import mixed_pairs
from benchmarks.timings import time_in_turns
from tour_pyserini import search
from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers import CachedReranker, load_reranker
from tour_pyserini.rerankers.reranker import Reranker
from tour_pyserini.stores.index_folder import read_index_files

_NEVER = float("inf")


def measure_guards(setup: BenchmarkSetup) -> Report:
    """Labels, an index that is read, and a whole search, each with and without guards."""
    pairs, reranker, folder = mixed_pairs(setup).texts, load_reranker(str(setup.model)), setup.index(NQ[0])
    with tempfile.TemporaryDirectory(dir=setup.work) as temporary:
        work: dict[str, Callable[[], object]] = {
            "labels, kept every second": partial(_label, reranker, pairs, Path(temporary)),
            "reading the index": partial(read_index_files, folder, PASSAGE_INDEX),
            "the search": partial(_search, setup, Path(temporary)),
        }
        body = []
        for name, guarded in work.items():
            functions: dict[str, Callable[[], object]] = {"without": partial(_unguarded, guarded), "with": guarded}
            timings = time_in_turns(functions, rounds=setup.rounds)
            without, with_, ratio = timings.best("without"), timings.best("with"), timings.ratio("with", "without")
            rate = f"{len(pairs) / with_:.1f}" if name.startswith("labels") else "-"
            body.append([name, f"{1000 * without:.1f}", f"{1000 * with_:.1f}", f"{ratio:.3f}", rate])
    note = (
        f"{len(pairs)} pairs; a search of {setup.topics(*NQ).count} questions with TouR, k = 10, T = 3, in one "
        f"process; {setup.rounds} rounds in turns. Without guards: labels are written once at the end and their rows "
        "are not checked, and no checksum is compared."
    )
    head = ["work", "without guards, ms", "with, ms", "times as long", "labels/s with"]
    return Report("guards", "What guards cost", Table([head, *body]), note)


def _label(reranker: Reranker, pairs: list[tuple[str, str]], folder: Path) -> np.ndarray:
    with tempfile.TemporaryDirectory(dir=folder) as cache, CachedReranker(reranker, Path(cache) / "s.sqlite") as cached:
        return cached.predict(pairs)


def _search(setup: BenchmarkSetup, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        files = {
            "topics": setup.topics(*NQ).queries,
            "index": setup.index(NQ[0]),
            "corpus": setup.corpus(NQ[0]),
            "encoder": setup.encoder,
            "reranker": setup.model,
            "cache": Path(cache) / "s.sqlite",
            "output": Path(cache) / "run.trec",
        }
        search.main([*(str(word) for name, file in files.items() for word in (f"--{name}", file)), *TOUR])


def _unguarded(work: Callable[[], object]) -> object:
    with _without_guards():
        return work()


@contextlib.contextmanager
def _without_guards() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch("tour_pyserini.stores.index_folder.check_checksums", lambda *_: None))
        stack.enter_context(patch("tour_pyserini.rerankers.score_cache.UNWRITTEN_SECONDS", _NEVER))
        stack.enter_context(patch("tour_pyserini.rerankers.score_cache.score_checksum", lambda key, logit, model: 0))
        yield
