"""Speed and ranking quality together: (b) TouR and re-ranking, and what 8 bits cost in quality."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup, TopicFiles, timed_search, tour_search
from benchmarks.timings import run_module
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.evaluation.paired_tests import compare_with_baseline
from tour_pyserini.evaluation.tables import Table

MEASURE = "nDCG@10"


def measure_tour(setup: BenchmarkSetup) -> Report:
    """(b) TouR with k = 10 and T = 3, re-ranking 40 passages, and a user's own re-ranking script."""
    folder, topics = NQ[0], setup.topics(*NQ)
    tour = tour_search(setup)
    rerank = timed_search(setup, "rerank40", "--method", "rerank", "--depth", "40", "--no-cache")
    naive = setup.work / "runs" / "naive40.trec"
    files = ("--topics", topics.queries, "--index", setup.index(folder), "--corpus", setup.corpus(folder))
    models = ("--encoder", setup.encoder, "--model", setup.model)
    script = run_module("benchmarks.naive_reranking", [*files, *models, "--output", naive], here=setup.quick)
    runs = {
        "TouR, k = 10, T = 3": (tour.run, tour.seconds, tour.searching),
        "re-ranking 40, same command": (rerank.run, rerank.seconds, rerank.searching),
        "FaissSearcher, CrossEncoder.predict on 40": (naive, script.seconds, None),
    }
    head = ["run", "s", "TouR is faster by", "without starting", MEASURE, "to TouR", "p"]
    qualities = _qualities(topics, [run for run, *_ in runs.values()])
    body = [
        [
            *(name, f"{whole:.1f}", f"{whole / tour.seconds:.2f}"),
            *(f"{searching / tour.searching:.2f}" if searching else "-", *quality),
        ]
        for (name, (_, whole, searching)), quality in zip(runs.items(), qualities, strict=True)
    ]
    note = (
        f"{topics.count} questions of NQ over the same flat index; {tour.costs.pairs / topics.count:.1f} labels per "
        f"question against {rerank.costs.pairs / topics.count:.1f}; seconds of the whole command, and without loading "
        "models and starting Java; p of the paired randomisation test."
    )
    return Report("b", "TouR against re-ranking", Table([head, *body]), note)


def measure_int8(setup: BenchmarkSetup) -> Report:
    """Re-rank ten passages with fp32 and with int8, and compare their quality and speed."""
    flags, body = ("--method", "rerank", "--depth", "10", "--no-cache", "--precision"), []
    for collection in (NQ, ("scifact", "test")):
        topics = setup.topics(*collection)
        fp32, int8 = (timed_search(setup, bits, *flags, bits, collection=collection) for bits in ("fp32", "int8"))
        (exact, *_), coarse = _qualities(topics, [fp32.run, int8.run])
        faster = fp32.costs.seconds["label"] / int8.costs.seconds["label"]
        body.append([" ".join(collection), str(topics.count), exact, *coarse, f"{faster:.2f}"])
    head = ["collection", "queries", f"fp32 {MEASURE}", "int8", "difference", "p", "times as fast"]
    note = "Ten passages re-ranked; p of the paired randomisation test; times of labelling."
    return Report("int8", "What int8 costs in quality", Table([head, *body]), note)


def _qualities(topics: TopicFiles, runs: Sequence[Path]) -> list[list[str]]:
    """Of each run: nDCG@10, the difference to the first run, and the p value of a paired randomisation test."""
    first, *others = compare(topics.qrels, runs, [MEASURE])
    compared = zip(others, compare_with_baseline(first, others), strict=True)
    return [
        [f"{first.means[MEASURE]:.4f}", "-", "-"],
        *([f"{run.means[MEASURE]:.4f}", f"{test.difference:+.4f}", f"{test.p:.3f}"] for run, test in compared),
    ]
