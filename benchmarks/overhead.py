"""(c) How much of the search is not the cross-encoder."""

from benchmarks.report import Bars, Report
from benchmarks.searching import tour
from benchmarks.setting import Setting
from tour_pyserini.evaluation.tables import Table


def measure(setting: Setting) -> Report:
    """Seconds of each stage, from the record of a run."""
    run = tour(setting)
    stages = dict(sorted(run.costs.seconds.items(), key=lambda item: -item[1]))
    each = max(run.costs.queries, 1)
    share = 1 - stages["label"] / run.searching
    body = [
        [name, f"{1000 * seconds / each:.2f}", f"{seconds / run.searching:.2%}"] for name, seconds in stages.items()
    ]
    body.append(["all but the cross-encoder", f"{1000 * share * run.searching / each:.2f}", f"{share:.2%}"])
    note = f"TouR, k = 10, T = 3, {run.costs.queries} questions of NQ, flat index; nothing from a cache."
    shares = {name: 100 * seconds / run.searching for name, seconds in stages.items() if name != "label"}
    return Report(
        "c",
        "What is not the cross-encoder",
        Table([["stage", "ms per question", "share"], *body]),
        note,
        [Bars("% of the search", {**shares, "all but labels": 100 * share}, 5)],
    )
