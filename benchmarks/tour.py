"""(b) TouR with k = 10 and T = 3, against re-ranking 40 and against what a user writes today."""

import time
from pathlib import Path

from benchmarks import naive
from benchmarks.process import spent
from benchmarks.quality import MEASURE, qualities
from benchmarks.report import Bars, Report
from benchmarks.searching import NQ, searched, tour
from benchmarks.setting import Setting
from tour_pyserini.evaluation.tables import Table


def measure(setting: Setting) -> Report:
    """Three whole runs on the same questions, and their quality."""
    mine = tour(setting)
    rerank = searched(setting, "rerank40", "--method", "rerank", "--depth", "40", "--no-cache")
    today, seconds = _naive(setting)
    runs = {
        "TouR, k = 10, T = 3": (mine.run, mine.seconds, mine.searching, mine.costs.pairs),
        "re-ranking 40, same command": (rerank.run, rerank.seconds, rerank.searching, rerank.costs.pairs),
        "FaissSearcher, CrossEncoder.predict on 40": (today, seconds, None, None),
    }
    topics = setting.topics(*NQ)
    found = qualities(topics, [run for run, *_ in runs.values()])
    head = ["run", "s", "TouR is faster by", "without starting", MEASURE, "to TouR", "p"]
    body = [
        [
            *(name, f"{whole:.1f}", f"{whole / mine.seconds:.2f}"),
            f"{searching / mine.searching:.2f}" if searching else "-",
            *(f"{each.mean:.4f}", f"{each.difference:+.4f}", "-" if each.p is None else f"{each.p:.3f}"),
        ]
        for (name, (_, whole, searching, _)), each in zip(runs.items(), found, strict=True)
    ]
    note = (
        f"{topics.count} questions of NQ over the same flat index; {mine.costs.pairs / topics.count:.1f} labels per "
        f"question against {rerank.costs.pairs / topics.count:.1f}; seconds of the whole command, and without loading "
        "models and starting Java; p of the paired randomisation test."
    )
    ratios = {name: whole / mine.seconds for name, (_, whole, _, _) in runs.items()}
    return Report("b", "TouR against re-ranking", Table([head, *body]), note, [Bars("seconds, TouR = 1", ratios, 2.4)])


def _naive(setting: Setting) -> tuple[Path, float]:
    folder, split = NQ
    run = setting.work / "runs" / "naive40.trec"
    arguments = [
        *("--topics", setting.topics(folder, split).queries, "--index", setting.index(folder)),
        *("--corpus", setting.corpus(folder), "--encoder", setting.encoder, "--model", setting.model, "--output", run),
    ]
    start = time.perf_counter()
    if setting.quick:
        naive.main(list(map(str, arguments)))
        return run, time.perf_counter() - start
    return run, spent("benchmarks.naive", arguments).seconds
