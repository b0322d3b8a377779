"""(e) How time and memory grow with queries, candidates and vectors, with a re-ranker that costs nothing."""

import contextlib
import io
import json
from typing import NamedTuple

from benchmarks import growth_point
from benchmarks.benchmark_report import Lines, Report
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.synthetic_data import index_folder
from benchmarks.timings import run_module
from tour_pyserini.evaluation.tables import Table

MIB = 2**20


class Sizes(NamedTuple):
    """The sizes that are measured, and the sizes of the other two (`some` queries, `few` vectors) meanwhile."""

    queries: tuple[int, ...] = (100, 1_000, 10_000)
    depths: tuple[int, ...] = (10, 20, 40, 80)
    vectors: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    some: int = 1_000
    few: int = 10_000


class Point(NamedTuple):
    """One search.

    Attributes:
        grows: the size that grows in its series.
        queries: how many.
        depth: candidates of a query (k).
        kind: of the index: `flat` or `hnsw`.
        vectors: in the index.
        seconds: of the search.
        memory: of the whole process, in bytes.
        run: bytes of the run file.
    """

    grows: str
    queries: int
    depth: int
    kind: str
    vectors: int
    seconds: float
    memory: int
    run: int


FULL = Sizes()
QUICK = Sizes(queries=(4, 8), depths=(2, 4), vectors=(200, 400), some=4, few=200)


def measure_growth(setup: BenchmarkSetup) -> Report:
    """Search once for each size."""
    sizes = QUICK if setup.quick else FULL
    points = [
        *(_point(setup, "queries", count, 10, "flat", sizes.few) for count in sizes.queries),
        *(_point(setup, "k", sizes.some, depth, "flat", sizes.few) for depth in sizes.depths),
        *(
            _point(setup, "vectors", sizes.some, 10, kind, count)
            for kind in ("flat", "hnsw")
            for count in sizes.vectors
        ),
    ]
    head = ["what grows", "index", "queries", "k", "vectors", "s", "ms per query", "peak MiB", "run, MiB"]
    body = [
        [
            *(point.grows, point.kind, f"{point.queries:,}", str(point.depth), f"{point.vectors:,}"),
            *(f"{point.seconds:.2f}", f"{1000 * point.seconds / point.queries:.2f}"),
            *(f"{point.memory / MIB:.0f}", f"{point.run / MIB:.1f}"),
        ]
        for point in points
    ]
    note = (
        "TouR, T = 3, with a re-ranker that costs nothing and random vectors of 128 dimensions around 1,000 centres, "
        "100 hits written per query; each line is a process of its own; seconds of the search, one thread, memory of "
        "the whole process."
    )
    return Report("e", "Growth", Table([head, *body], words=2), note, _panels(points))


def _point(setup: BenchmarkSetup, grows: str, queries: int, depth: int, kind: str, vectors: int) -> Point:
    flags = {
        "--index": index_folder(setup.work / "indexes", kind, vectors),
        "--queries": queries,
        "--depth": depth,
        "--output": setup.work / "runs" / "growth.trec",
    }
    arguments = [str(word) for item in flags.items() for word in item]
    output = _run_here(arguments) if setup.quick else run_module("benchmarks.growth_point", arguments).output
    costs = json.loads(output)
    return Point(grows, queries, depth, kind, vectors, costs["seconds"], costs["memory"], costs["bytes"])


def _run_here(arguments: list[str]) -> str:
    """What the program prints, run in this process."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        growth_point.main(arguments)
    return output.getvalue()


def _panels(points: list[Point]) -> list[Lines]:
    """A panel per size that grows: seconds and memory relative to the smallest size."""

    def line(grows: str, x: str, y: str, kind: str = "flat") -> list[tuple[float, float]]:
        chosen = [point for point in points if (point.grows, point.kind) == (grows, kind)]
        return [(getattr(point, x), getattr(point, y) / getattr(chosen[0], y)) for point in chosen]

    return [
        Lines(x, "times the smallest", series)
        for x, series in {
            "queries": {y: line("queries", "queries", y) for y in ("seconds", "memory")},
            "k": {y: line("k", "depth", y) for y in ("seconds", "memory")},
            "vectors": {
                f"{kind}, {y}": line("vectors", "vectors", y, kind)
                for kind in ("flat", "hnsw")
                for y in ("seconds", "memory")
            },
        }.items()
    ]
