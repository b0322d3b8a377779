"""Speed and ranking quality together: (b) TouR and re-ranking, and what 8 bits cost in quality."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import naive_reranking
from benchmarks.benchmark_report import Bars, Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup, TopicFiles, timed_search, tour_search
from benchmarks.timings import run_module
from tour_pyserini import index, search
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.evaluation.paired_tests import compare_with_baseline
from tour_pyserini.evaluation.tables import Table

MEASURE = "nDCG@10"
INT8_COLLECTIONS = (NQ, ("scifact", "test"))
INT8_INDEXES = (("scifact", "test"), ("nq-wiki", "nq-dev"))


def measure_tour(setup: BenchmarkSetup) -> Report:
    """(b) TouR with k = 10 and T = 3, re-ranking 40 passages, and a user's own re-ranking script."""
    tour = tour_search(setup)
    rerank = timed_search(setup, "rerank40", "--method", "rerank", "--depth", "40", "--no-cache")
    naive_run, naive_seconds = _naive_reranking(setup)
    runs = {
        "TouR, k = 10, T = 3": (tour.run, tour.seconds, tour.searching),
        "re-ranking 40, same command": (rerank.run, rerank.seconds, rerank.searching),
        "FaissSearcher, CrossEncoder.predict on 40": (naive_run, naive_seconds, None),
    }
    topics = setup.topics(*NQ)
    qualities = _qualities(topics, [run for run, *_ in runs.values()])
    head = ["run", "s", "TouR is faster by", "without starting", MEASURE, "to TouR", "p"]
    body = [
        [
            *(name, f"{whole:.1f}", f"{whole / tour.seconds:.2f}"),
            f"{searching / tour.searching:.2f}" if searching else "-",
            *(f"{quality.mean:.4f}", f"{quality.difference:+.4f}", "-" if quality.p is None else f"{quality.p:.3f}"),
        ]
        for (name, (_, whole, searching)), quality in zip(runs.items(), qualities, strict=True)
    ]
    note = (
        f"{topics.count} questions of NQ over the same flat index; {tour.costs.pairs / topics.count:.1f} labels per "
        f"question against {rerank.costs.pairs / topics.count:.1f}; seconds of the whole command, and without loading "
        "models and starting Java; p of the paired randomisation test."
    )
    ratios = {name: whole / tour.seconds for name, (_, whole, _) in runs.items()}
    return Report("b", "TouR against re-ranking", Table([head, *body]), note, [Bars("seconds, TouR = 1", ratios, 2.4)])


def measure_int8(setup: BenchmarkSetup) -> Report:
    """Re-rank ten passages with fp32 and with int8, and compare their quality and speed."""
    body = []
    for collection in INT8_COLLECTIONS:
        topics = setup.topics(*collection)
        fp32, int8 = (
            timed_search(
                *(setup, precision, "--method", "rerank", "--depth", "10", "--no-cache", "--precision", precision),
                collection=collection,
            )
            for precision in ("fp32", "int8")
        )
        exact, coarse = _qualities(topics, [fp32.run, int8.run])
        body.append(
            [
                *(" ".join(collection), str(topics.count), f"{exact.mean:.4f}", f"{coarse.mean:.4f}"),
                *(f"{coarse.difference:+.4f}", f"{coarse.p:.3f}"),
                f"{fp32.costs.seconds['label'] / int8.costs.seconds['label']:.2f}",
            ]
        )
    head = ["collection", "queries", f"fp32 {MEASURE}", "int8", "difference", "p", "times as fast"]
    note = "Ten passages re-ranked; p of the paired randomisation test; times of labelling."
    return Report("int8", "What int8 costs in quality", Table([head, *body]), note)


def measure_int8_index(setup: BenchmarkSetup) -> Report:
    """Search an index whose passages were encoded with fp32, and one with int8; queries are encoded with fp32."""
    body = []
    for name, split in INT8_INDEXES:
        topics, corpus = setup.topics(name, split), setup.corpus(name)
        runs = []
        for precision in ("fp32", "int8"):
            folder = setup.work / "indexes" / f"{name}.{Path(setup.encoder).name}.{precision}"
            flags = ("--corpus", corpus, "--encoder", setup.encoder, "--index", folder, "--precision", precision)
            if not folder.exists():
                index.main(list(map(str, flags)))
            runs.append(setup.work / "runs" / f"{name}.index-{precision}.trec")
            words = ("--topics", topics.queries, "--index", folder, "--method", "dense", "--output", runs[-1])
            search.main([*map(str, words), "--hits", "100", "--encoder", setup.encoder])
        for measure in ("nDCG@10", "R@100"):
            exact, coarse = compare(topics.qrels, runs, [measure])
            (comparison,) = compare_with_baseline(exact, [coarse])
            body.append(
                [
                    *(f"{name} {split}", str(topics.count), measure),
                    *(f"{exact.means[measure]:.4f}", f"{coarse.means[measure]:.4f}"),
                    *(f"{comparison.difference:+.4f}", f"{comparison.p:.3f}"),
                ]
            )
    head = ["collection", "queries", "measure", "fp32", "int8", "difference", "p"]
    note = "Plain dense search; passages encoded with fp32 and with int8, queries with fp32; paired randomisation test."
    return Report("int8-index", "What int8 passages cost in quality", Table([head, *body]), note)


class _Quality(NamedTuple):
    """nDCG@10, the difference to the first run, and the p value of a paired randomisation test (None for the first)."""

    mean: float
    difference: float
    p: float | None


def _qualities(topics: TopicFiles, runs: Sequence[Path]) -> list[_Quality]:
    """Each run's quality, compared with the first run."""
    first, *others = compare(topics.qrels, runs, [MEASURE])
    compared = zip(others, compare_with_baseline(first, others), strict=True)
    return [
        _Quality(first.means[MEASURE], 0.0, None),
        *(_Quality(run.means[MEASURE], comparison.difference, comparison.p) for run, comparison in compared),
    ]


def _naive_reranking(setup: BenchmarkSetup) -> tuple[Path, float]:
    """The run of `benchmarks.naive_reranking`, and its seconds."""
    folder, split = NQ
    run = setup.work / "runs" / "naive40.trec"
    arguments = [
        *("--topics", setup.topics(folder, split).queries, "--index", setup.index(folder)),
        *("--corpus", setup.corpus(folder), "--encoder", setup.encoder, "--model", setup.model, "--output", run),
    ]
    if setup.quick:
        start = time.perf_counter()
        naive_reranking.main(list(map(str, arguments)))
        return run, time.perf_counter() - start
    return run, run_module("benchmarks.naive_reranking", arguments).seconds
