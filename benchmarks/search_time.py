"""Where the time of a search goes: (c) overhead, (d) distance to the bound, (f) a warm score cache, and overlap."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.benchmark_report import Bars, Report
from benchmarks.benchmark_setup import NQ, TOUR, BenchmarkSetup, timed_search, tour_search, tour_trace
from benchmarks.flops import flops, peak_flops, token_counts
from benchmarks.labelling_speed import mixed_pairs
from benchmarks.timings import time_in_turns
from tour_pyserini import FaissSearcher, TourConfig, TourSearcher, load_query_encoder
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers import load_reranker

BATCH = 64  # questions that are searched while pairs are labelled


def measure_overhead(setup: BenchmarkSetup) -> Report:
    """(c) Seconds of each stage of a search: how much is not the cross-encoder."""
    run = tour_search(setup)
    stages = dict(sorted(run.costs.seconds.items(), key=lambda item: -item[1]))
    queries = max(run.costs.queries, 1)
    share = 1 - stages["label"] / run.searching
    body = [
        [name, f"{1000 * seconds / queries:.2f}", f"{seconds / run.searching:.2%}"] for name, seconds in stages.items()
    ]
    body.append(["all but the cross-encoder", f"{1000 * share * run.searching / queries:.2f}", f"{share:.2%}"])
    note = f"TouR, k = 10, T = 3, {run.costs.queries} questions of NQ, flat index; nothing from a cache."
    shares = {name: 100 * seconds / run.searching for name, seconds in stages.items() if name != "label"}
    return Report(
        "c",
        "What is not the cross-encoder",
        Table([["stage", "ms per question", "share"], *body]),
        note,
        [Bars("% of the search", {**shares, "all but labels": 100 * share}, 5)],
    )


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
    return Report(
        "d",
        "Distance to the bound",
        Table([["", "s", "times the bound"], *body]),
        note,
        [Bars("times the bound", {name: seconds / bound for name, seconds in needed.items()})],
    )


def _labelled_pairs(setup: BenchmarkSetup) -> list[tuple[str, str]]:
    """The distinct pairs that the run labelled, from its trace."""
    texts = open_texts(setup.corpus(NQ[0]))
    questions = {record["_id"]: record["text"] for record in setup.topics(*NQ).records()}
    rounds = map(json.loads, tour_trace(setup).read_text(encoding="utf-8").splitlines())
    labelled = dict.fromkeys((record["qid"], docid) for record in rounds for docid in record["docids"])
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
    return Report(
        "f",
        "A warm cache",
        Table([["", "cold, s", "warm, s", "times as fast"], *body]),
        note,
        [Bars("times as fast as cold", {line[0]: float(line[-1]) for line in body}, 50)],
    )


def measure_overlap(setup: BenchmarkSetup) -> Report:
    """Labelling and searching one after the other, and at once on two threads: would overlap be faster?"""
    label, search = _labelling(setup), _searching(setup)

    def both() -> None:
        with ThreadPoolExecutor(1) as executor:
            searched = executor.submit(search)
            label()
            searched.result()

    timings = time_in_turns({"label": label, "search": search, "at once": both}, rounds=setup.rounds)
    labelling, searching, at_once = (timings.best(name) for name in ("label", "search", "at once"))
    run = tour_search(setup)
    most = run.searching / run.costs.seconds["label"]
    body = [
        ["labelling alone", f"{labelling:.2f}", ""],
        ["encoding and searching alone", f"{searching:.2f}", ""],
        ["one after the other", f"{labelling + searching:.2f}", "1.00"],
        ["at once", f"{at_once:.2f}", f"{(labelling + searching) / at_once:.2f}"],
        ["at best, in the run of (c)", "", f"{most:.3f}"],
    ]
    note = (
        f"{len(mixed_pairs(setup).texts)} pairs labelled, {BATCH} questions encoded and searched; the last line is "
        "what a run could gain if all that is not the cross-encoder cost nothing."
    )
    return Report("overlap", "Overlap", Table([["", "s", "times as fast"], *body]), note)


def _labelling(setup: BenchmarkSetup) -> Callable[[], object]:
    reranker, pairs = load_reranker(setup.model), mixed_pairs(setup).texts
    return lambda: reranker.predict(pairs)


def _searching(setup: BenchmarkSetup) -> Callable[[], object]:
    questions = [record["text"] for record in setup.topics(*NQ).records()][:BATCH]
    retriever = FaissSearcher(str(setup.index(NQ[0])), load_query_encoder(setup.encoder))
    searcher = TourSearcher(retriever, config=TourConfig.preset("dense"))
    ids = [str(number) for number in range(len(questions))]
    return lambda: searcher.batch_search(questions, ids, k=100)
