"""Where the time of a search goes: (c) overhead, (d) distance to the bound, (f) a warm score cache."""

import json

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, TOUR, BenchmarkSetup, timed_search, tour_search, tour_trace
from benchmarks.flops import flops, peak_flops, token_counts
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import Table


def measure_overhead(setup: BenchmarkSetup) -> Report:
    """(c) Seconds of each stage of a search: how much is not the cross-encoder."""
    run = tour_search(setup)
    stages = dict(sorted(run.costs.seconds.items(), key=lambda item: -item[1]))
    queries = max(run.costs.queries, 1)
    share = 1 - stages["label"] / run.searching
    body = [
        [name, f"{1000 * seconds / queries:.2f}", f"{seconds / run.searching:.2%}"]
        for name, seconds in stages.items()
        if seconds > 0.001 * run.searching
    ]
    body.append(["all but the cross-encoder", f"{1000 * share * run.searching / queries:.2f}", f"{share:.2%}"])
    note = f"TouR, k = 10, T = 3, {run.costs.queries} questions of NQ, flat index; nothing from a cache."
    return Report("c", "What is not the cross-encoder", Table([["stage", "ms per question", "share"], *body]), note)


def measure_bound(setup: BenchmarkSetup) -> Report:
    """(d) The seconds of a run, compared with the least that its labels can cost: their work over the peak."""
    run, pairs = tour_search(setup), _labelled_pairs(setup)
    work, peak = flops(setup.model, token_counts(setup.model, pairs)), peak_flops(quick=setup.quick)
    bound = work / peak
    needed = {
        "the bound": bound,
        "labelling": run.costs.seconds["label"],
        "the search": run.searching,
        "the whole command": run.seconds,
    }
    body = [[name, f"{seconds:.2f}", f"{seconds / bound:.2f}"] for name, seconds in needed.items()]
    note = (
        f"{len(pairs)} distinct pairs of {work / len(pairs) / 1e9:.2f} GFLOP each, from their real lengths; peak "
        f"{peak / 1e9:.0f} GFLOP/s in fp32, measured in the same run."
    )
    return Report("d", "Distance to the bound", Table([["", "s", "times the bound"], *body]), note)


def _labelled_pairs(setup: BenchmarkSetup) -> list[tuple[str, str]]:
    """The distinct pairs that the run labelled, from its trace."""
    texts = open_texts(setup.corpus(NQ[0]))
    questions = {record["_id"]: record["text"] for record in setup.topics(*NQ).records()}
    rounds = map(json.loads, tour_trace(setup).read_text(encoding="utf-8").splitlines())
    labelled = dict.fromkeys((record["qid"], docid) for record in rounds for docid in record["labelled"])
    return [(questions[qid], texts[docid]) for qid, docid in labelled]


def measure_warm_cache(setup: BenchmarkSetup) -> Report:
    """(f) The same search with an empty and with a full score cache; both runs must be equal byte for byte."""
    cache = setup.work / "warm.sqlite"
    for suffix in ("", "-wal", "-shm"):
        cache.with_name(cache.name + suffix).unlink(missing_ok=True)
    cold, warm = (timed_search(setup, name, *TOUR, "--cache", str(cache)) for name in ("cold", "warm"))
    if cold.run.read_bytes() != warm.run.read_bytes():
        raise TourError(f"{warm.run} differs from {cold.run}; a score cache must not change a run.")
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
    return Report("f", "A warm cache", Table([["", "cold, s", "warm, s", "times as fast"], *body]), note)
