"""Ray with two workers against one process: the ratio of times, and the same bytes, also if workers are killed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, TOUR, BenchmarkSetup
from tour_pyserini.data.run_records import read_record
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers.score_cache import SqliteScores
from tour_pyserini.support.costs import Costs

WORKERS = 2
BATCH = 16  # questions; few enough that both workers have work until the end
KILLS = (0.25, 0.5)  # shares of the labels after which a worker is killed
ONE = "one process, one thread"


class ClusterRun(NamedTuple):
    """A search: its run file, the seconds of the whole command, its costs, and how many workers were killed."""

    run: Path
    seconds: float
    costs: Costs
    killed: int


def measure_cluster(setup: BenchmarkSetup) -> Report:
    """Search the same questions without and with Ray."""
    ray = ("--ray", "local", "--ray-workers", WORKERS)
    one = _search(setup, "one", "--reranker-threads", 1)
    runs = {
        ONE: one,
        "one process, a thread per core": _search(setup, "all"),
        f"Ray, {WORKERS} workers": _search(setup, "ray", *ray),
        f"Ray, {WORKERS} workers, killed twice": _search(
            setup, "killed", *ray, kill_at=[int(share * one.costs.scored) for share in KILLS]
        ),
    }
    head = ["search", "s", "times as fast", "labels bought", "workers killed", "same bytes"]
    same = {name: run.run.read_bytes() == one.run.read_bytes() for name, run in runs.items()}
    body = [
        [
            *(name, f"{run.seconds:.0f}", f"{one.seconds / run.seconds:.2f}"),
            *(f"{run.costs.scored:,}", str(run.killed), "yes" if same[name] else "no"),
        ]
        for name, run in runs.items()
    ]
    note = (
        f"TouR, k = 10, T = 3, {one.costs.queries} questions of NQ in batches of {BATCH}, 100 hits each; each search "
        "has a score cache of its own, which is empty; seconds of the whole command, with starting Ray and opening "
        f"models in each worker. Workers are killed by kill -9 after {' and '.join(f'{s:.0%}' for s in KILLS)} of the "
        "labels; what the killed ones had scored and not stored is bought again, but a search counts only the labels "
        "of batches that were finished."
    )
    return Report("cluster", "Ray against one process", Table([head, *body]), note)


def _search(setup: BenchmarkSetup, name: str, *flags: object, kill_at: Sequence[int] = ()) -> ClusterRun:
    """Run the search command, and kill a worker each time that so many labels are stored."""
    folder = setup.work / "cluster"
    run, cache = folder / f"{name}.trec", folder / f"{name}.sqlite"
    for path in (cache, Path(f"{cache}-wal"), Path(f"{cache}-shm")):
        path.unlink(missing_ok=True)
    arguments = [
        *("--topics", setup.topics(*NQ).queries, "--index", setup.index(NQ[0]), "--corpus", setup.corpus(NQ[0])),
        *("--encoder", setup.encoder, "--reranker", setup.model, "--hits", "100", "--output", run, "--cache", cache),
        *("--batch-size", 1 if setup.quick else BATCH, *TOUR, *flags),
    ]
    command = [sys.executable, "-m", "tour_pyserini.search", *map(str, arguments)]
    start, killed = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stderr=errors)
        while process.poll() is None:
            if killed < len(kill_at) and _stored(cache) >= kill_at[killed]:
                killed += _kill_a_worker(process.pid)
            time.sleep(0.02)
        errors.seek(0)
        if process.returncode:
            raise TourError(f"{' '.join(command)} ended with {process.returncode}: {errors.read().strip()[-500:]}")
    costs = Costs.from_record((read_record(run) or {}).get("costs"))
    return ClusterRun(run, time.perf_counter() - start, costs, killed)


def _stored(cache: Path) -> int:
    if not cache.exists():
        return 0
    with closing(SqliteScores(cache)) as store:
        return store.count()


def _kill_a_worker(command: int) -> int:
    """Kill -9 a worker of a command that is searching; the number of workers killed, 0 or 1."""
    for process in _started_by(command):
        try:
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::SearchWorker.search"):
                os.kill(process, signal.SIGKILL)
                return 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    return 0


def _started_by(process: int) -> list[int]:
    """All processes that a process and its children have started."""
    try:
        children = [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [found for child in children for found in (child, *_started_by(child))]
