"""(e) Time and memory as queries, candidates and vectors become more, with a re-ranker that costs nothing."""

import contextlib
import io
import json
from typing import NamedTuple

from benchmarks import growth_point
from benchmarks.process import Spent, spent
from benchmarks.report import Lines, Report
from benchmarks.setting import Setting
from benchmarks.world import index_folder
from tour_pyserini.evaluation.tables import Table

MIB = 2**20


class Sizes(NamedTuple):
    """What grows, and where the rest stands meanwhile."""

    queries: tuple[int, ...] = (100, 1_000, 10_000)
    depths: tuple[int, ...] = (10, 20, 40, 80)
    vectors: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    some: int = 1_000
    few: int = 10_000


class Point(NamedTuple):
    """What one search needed."""

    what: str
    queries: int
    depth: int
    kind: str
    vectors: int
    seconds: float
    memory: int
    run: int


FULL = Sizes()
QUICK = Sizes(queries=(4, 8), depths=(2, 4), vectors=(200, 400), some=4, few=200)


def measure(setting: Setting) -> Report:
    """A point per size."""
    sizes = QUICK if setting.quick else FULL
    points = [
        *(_point(setting, "queries", count, 10, "flat", sizes.few) for count in sizes.queries),
        *(_point(setting, "k", sizes.some, depth, "flat", sizes.few) for depth in sizes.depths),
        *(
            _point(setting, "vectors", sizes.some, 10, kind, count)
            for kind in ("flat", "hnsw")
            for count in sizes.vectors
        ),
    ]
    head = ["what grows", "index", "queries", "k", "vectors", "s", "ms per query", "peak MiB", "run, MiB"]
    body = [
        [
            *(point.what, point.kind, f"{point.queries:,}", str(point.depth), f"{point.vectors:,}"),
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


def _point(setting: Setting, what: str, queries: int, depth: int, kind: str, vectors: int) -> Point:
    flags = {
        "--index": index_folder(setting.work / "indexes", kind, vectors),
        "--queries": queries,
        "--depth": depth,
        "--output": setting.work / "runs" / "growth.trec",
    }
    arguments = [str(word) for item in flags.items() for word in item]
    used = _here(arguments) if setting.quick else spent("benchmarks.growth_point", arguments)
    told = json.loads(used.said)
    return Point(what, queries, depth, kind, vectors, told["seconds"], told["memory"], told["bytes"])


def _here(arguments: list[str]) -> Spent:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        growth_point.main(arguments)
    return Spent(0.0, said.getvalue())


def _panels(points: list[Point]) -> list[Lines]:
    """Seconds and memory relative to the smallest size."""

    def line(what: str, x: str, y: str, kind: str = "flat") -> list[tuple[float, float]]:
        chosen = [point for point in points if (point.what, point.kind) == (what, kind)]
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
