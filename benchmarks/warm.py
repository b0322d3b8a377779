"""(f) The same run again, with every label kept."""

from benchmarks.report import Bars, Report
from benchmarks.searching import TOUR, searched
from benchmarks.setting import Setting
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers.score_file import append_suffix


def measure(setting: Setting) -> Report:
    """A cold and a warm run, which must be the same byte for byte."""
    cache = setting.work / "warm.sqlite"
    for suffix in ("", "-wal", "-shm"):
        append_suffix(cache, suffix).unlink(missing_ok=True)
    cold, warm = (searched(setting, name, *TOUR, "--cache", str(cache)) for name in ("cold", "warm"))
    if cold.run.read_bytes() != warm.run.read_bytes():
        raise TourError(f"{warm.run} differs from {cold.run}; a cache must not change a run.")
    body = [
        [name, *(f"{seconds:.2f}" for seconds in pair), f"{pair[0] / pair[1]:.1f}"]
        for name, pair in {
            "labelling": (cold.costs.seconds["label"], warm.costs.seconds["label"]),
            "the search": (cold.searching, warm.searching),
            "the whole command": (cold.seconds, warm.seconds),
        }.items()
    ]
    note = (
        f"TouR, k = 10, T = 3, {cold.costs.queries} questions of NQ: {cold.costs.scored} pairs scored, then "
        f"{warm.costs.scored}; both runs are the same byte for byte."
    )
    return Report(
        "f",
        "A warm cache",
        Table([["", "cold, s", "warm, s", "times as fast"], *body]),
        note,
        [Bars("times as fast as cold", {line[0]: float(line[-1]) for line in body}, 50)],
    )
