"""(e) How time and memory grow with queries and candidates, with a re-ranker that costs nothing."""

import json
from typing import NamedTuple

from benchmarks import growth_point
from benchmarks.benchmark_report import Lines, Report
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.synthetic_data import index_folder
from benchmarks.timings import output_here, run_module
from tour_pyserini.evaluation.tables import Table

MIB = 2**20


class Sizes(NamedTuple):
    """The sizes that are measured; `some` queries meanwhile, and `few` vectors."""

    queries: tuple[int, ...] = (100, 1_000, 10_000)
    depths: tuple[int, ...] = (10, 20, 40, 80)
    some: int = 1_000
    few: int = 10_000


class Point(NamedTuple):
    """One search.

    Attributes:
        grows: the size that grows in its series.
        queries: how many.
        depth: candidates of a query (k).
        seconds: of the search.
        memory: of the whole process, in bytes.
        run: bytes of the run file.
    """

    grows: str
    queries: int
    depth: int
    seconds: float
    memory: int
    run: int


FULL = Sizes()
QUICK = Sizes(queries=(4, 8), depths=(2, 4), some=4, few=200)


def measure_growth(setup: BenchmarkSetup) -> Report:
    """Search once for each size."""
    sizes = QUICK if setup.quick else FULL
    points = [
        *(_point(setup, "queries", count, 10, sizes.few) for count in sizes.queries),
        *(_point(setup, "k", sizes.some, depth, sizes.few) for depth in sizes.depths),
    ]
    head = ["what grows", "queries", "k", "s", "ms per query", "peak MiB", "run, MiB"]
    body = [
        [
            *(point.grows, f"{point.queries:,}", str(point.depth)),
            *(f"{point.seconds:.2f}", f"{1000 * point.seconds / point.queries:.2f}"),
            *(f"{point.memory / MIB:.0f}", f"{point.run / MIB:.1f}"),
        ]
        for point in points
    ]
    note = (
        f"TouR, T = 3, with a re-ranker that costs nothing and a flat index of {sizes.few:,} random vectors of 128 "
        "dimensions around 1,000 centres, 100 hits written per query; each line is a process of its own; seconds of "
        "the search, one thread, memory of the whole process."
    )
    return Report("e", "Growth", Table([head, *body]), note, _panels(points))


def _point(setup: BenchmarkSetup, grows: str, queries: int, depth: int, vectors: int) -> Point:
    flags = {
        "--index": index_folder(setup.work / "indexes", vectors),
        "--queries": queries,
        "--depth": depth,
        "--output": setup.work / "runs" / "growth.trec",
    }
    arguments = [str(word) for item in flags.items() for word in item]
    if setup.quick:
        output = output_here(growth_point.main, arguments)
    else:
        output = run_module("benchmarks.growth_point", arguments).output
    costs = json.loads(output)
    return Point(grows, queries, depth, costs["seconds"], costs["memory"], costs["bytes"])


def _panels(points: list[Point]) -> list[Lines]:
    """A panel per size that grows: seconds and memory relative to the smallest size."""

    def line(grows: str, x: str, y: str) -> list[tuple[float, float]]:
        chosen = [point for point in points if point.grows == grows]
        return [(getattr(point, x), getattr(point, y) / getattr(chosen[0], y)) for point in chosen]

    return [
        Lines(x, "times the smallest", series)
        for x, series in {
            "queries": {y: line("queries", "queries", y) for y in ("seconds", "memory")},
            "k": {y: line("k", "depth", y) for y in ("seconds", "memory")},
        }.items()
    ]
