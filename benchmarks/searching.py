"""Runs of the search command on a real collection."""

import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import spent
from benchmarks.setting import Setting
from tour_pyserini import search
from tour_pyserini.data.records import read_costs
from tour_pyserini.support.costs import Costs

NQ = ("nq-wiki", "nq-test")
TOUR = ("--method", "hard", "--depth", "10", "--iterations", "3")


class Searched(NamedTuple):
    """A run, the seconds of the whole command, and what its record says."""

    run: Path
    seconds: float
    costs: Costs

    @property
    def searching(self) -> float:
        """Seconds of all stages of the search: without loading models and starting Java."""
        return sum(self.costs.seconds.values())


@lru_cache
def searched(setting: Setting, name: str, *flags: str, collection: tuple[str, str] = NQ) -> Searched:
    """Search the questions with the fp32 cross-encoder; the same call again gives the same run."""
    folder, split = collection
    topics, run = setting.topics(folder, split), setting.work / "runs" / f"{folder}.{name}.trec"
    arguments = [
        *("--topics", topics.queries, "--index", setting.index(folder), "--corpus", setting.corpus(folder)),
        *("--encoder", setting.encoder, "--reranker", setting.model, "--hits", "100", "--output", run, *flags),
    ]
    start = time.perf_counter()
    if setting.quick:
        search.main(list(map(str, arguments)))
        seconds = time.perf_counter() - start
    else:
        seconds = spent("tour_pyserini.search", arguments).seconds
    costs = read_costs(run)
    assert costs is not None
    return Searched(run, seconds, costs)


def tour(setting: Setting) -> Searched:
    """TouR with k = 10 and T = 3, nothing from a cache, with a trace beside the run."""
    return searched(setting, "hard", *TOUR, "--no-cache", "--trace", str(trace_of(setting)))


def trace_of(setting: Setting) -> Path:
    """Where `tour` leaves its trace."""
    return setting.work / "runs" / "hard.trace.jsonl"
