"""(large) Building, opening and searching an index as the collection grows, with a re-ranker that costs nothing."""

import json
import shutil
from typing import Any, NamedTuple

from benchmarks import large_point
from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.synthetic_data import DIMENSION, large_collection
from benchmarks.timings import run_module
from tour_pyserini.evaluation.tables import Table

MIB = 2**20
INDEXES = {"flat float32": "Flat", "flat float16": "SQfp16", "SQ8": "SQ8", "IVFPQ": "IVF{lists},PQ16"}
QUICK_SIZES = (300, 600)
FEW_QUERIES = 64  # of a point


class Step(NamedTuple):
    """What one process took: seconds of the step, and bytes of memory at most; and the bytes of the index."""

    seconds: float
    memory: int
    bytes: int


class Point(NamedTuple):
    """An index of a size, from building to TouR."""

    passages: int
    kind: str
    build: Step
    first: Step
    again: Step
    search: Step
    tour: Step


def measure_large(setup: BenchmarkSetup) -> Report:
    """Build, open and search each kind of index of each size."""
    sizes = QUICK_SIZES if setup.quick else setup.sizes
    points = [_point(setup, size, kind) for size in sizes for kind in INDEXES]
    head = [
        *("passages", "index", "MiB", "build, s", "open, s", "again, s", "search, ms", "TouR, ms"),
        *("peak: build", "open", "search", "TouR"),
    ]
    note = (
        f"Random vectors of {DIMENSION} dimensions around 1,000 centres, and a corpus file of one line per "
        "passage. IVFPQ: 1,024 lists (4,096 from ten million passages on), 16 bytes per vector, 16 lists searched. "
        "Open: the index, its corpus file and the table of docids (`--remove-query`), for the first time and again. "
        "Search and TouR (hard, k = 10, T = 3): ms "
        f"per query, {FEW_QUERIES} queries in a batch, {large_point.HITS} hits, one thread, after a first query. Each "
        "figure is a process of its own; peak: MiB of memory of the whole process, mapped files included."
    )
    return Report("large", "Large on one machine", Table([head, *map(_row, points)], words=2), note)


def _point(setup: BenchmarkSetup, size: int, kind: str) -> Point:
    build = _step(setup, "build", size, kind)
    shutil.rmtree(setup.work / "large-cache", ignore_errors=True)
    first, again = (_step(setup, "open", size, kind) for _ in range(2))
    search, tour = (_step(setup, step, size, kind, queries=FEW_QUERIES) for step in ("search", "tour"))
    return Point(size, kind, build, first, again, search, tour)


def _step(setup: BenchmarkSetup, step: str, size: int, kind: str, **flags: Any) -> Step:
    factory = INDEXES[kind].format(lists=4 if setup.quick else 4096 if size >= 10_000_000 else 1024)
    flags |= {
        "data": large_collection(setup.work / "large", size),
        "index": setup.work / "indexes" / f"large.{size}.{kind.replace(' ', '-')}",
        "factory": factory,
    }
    if not setup.quick:
        flags["cache"] = setup.work / "large-cache"
    words = [step, *(str(word) for name, value in flags.items() for word in (f"--{name}", value))]
    return Step(**json.loads(run_module("benchmarks.large_point", words, here=setup.quick).output))


def _row(point: Point) -> list[str]:
    return [
        *(f"{point.passages:,}", point.kind, f"{point.build.bytes / MIB:.0f}"),
        *(f"{step.seconds:.2f}" for step in (point.build, point.first, point.again)),
        *(f"{1000 * step.seconds / FEW_QUERIES:.2f}" for step in (point.search, point.tour)),
        *(f"{step.memory / MIB:.0f}" for step in (point.build, point.again, point.search, point.tour)),
    ]
