"""Quality against deadline: what comes back in 100, 300 and 1,000 ms, of TouR and of re-ranking."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.benchmark_report import Lines, Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.served import Load, check_answered, closed_loop, questions, running, tour_flags
from tour_pyserini.evaluation.comparison import compare
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.support.files import atomic_write

DEADLINES = (100, 300, 1000)
CLIENTS = (1, 4)
WARM_UP = 20
"""Questions that the forecast of label costs learns from before anything is measured."""
MEASURE = "nDCG@10"
DENSE = "dense"
METHODS: dict[str, dict[str, object]] = {
    DENSE: {"method": "dense"},
    "TouR": {},
    "re-rank 30": {"method": "rerank", "settings": {"depth": 30}},
}


class Case(NamedTuple):
    """What is measured: a deadline in milliseconds or None, clients at the same time, and a method."""

    deadline: int | None
    clients: int
    method: str


def measure_deadlines(setup: BenchmarkSetup) -> Report:
    """Share of deadlines that are met, labels bought in time, and nDCG@10 of what comes back."""
    topics = questions(setup)
    queries, ids = [topic["text"] for topic in topics], [topic["_id"] for topic in topics]
    clients = CLIENTS[:1] if setup.quick else CLIENTS
    cases = [
        *(Case(deadline, count, method) for deadline in DEADLINES for count in clients for method in METHODS),
        *(Case(None, 1, method) for method in METHODS),
    ]
    loads: dict[Case, Load] = {}
    with running("tour_pyserini.serve", *tour_flags(setup)) as service:
        check_answered(closed_loop(service.url, queries[:WARM_UP], clients=1), "the service")
        for case in cases:
            if case.method == DENSE and case.deadline is not None:
                continue
            options = METHODS[case.method] | ({} if case.deadline is None else {"deadline_ms": case.deadline})
            loads[case] = closed_loop(service.url, queries, clients=case.clients, **options)
    qualities = {case: _quality(setup, case, ids, load) for case, load in loads.items()}
    body_rows = [
        [
            "none" if case.deadline is None else str(case.deadline),
            str(case.clients),
            case.method,
            *_shares(load, case.deadline),
            f"{1000 * load.percentile(0.99):.0f}",
            f"{np.mean([reply.body['costs']['labels'] for reply in load.replies if reply.status == 200]):.1f}",
            f"{qualities[case]:.4f}",
        ]
        for case, load in loads.items()
    ]
    head = ["deadline, ms", "clients", "method", "met", "met by 1.1 times", "p99, ms", "labels", MEASURE]
    note = (
        f"{len(queries)} questions of NQ, the default re-ranker (8-bit) for both methods, nothing kept between "
        "searches; clients ask again as soon as they have an answer, and the time is what they measure. TouR buys at "
        "most 30 labels, re-ranking 30."
    )
    curves = {
        f"{method}, clients: {count}": [(deadline, qualities[Case(deadline, count, method)]) for deadline in DEADLINES]
        for count in clients
        for method in METHODS
        if method != DENSE
    }
    curves[DENSE] = [(deadline, qualities[Case(None, 1, DENSE)]) for deadline in DEADLINES]
    panels = [Lines("deadline, ms", MEASURE, curves, even=True)]
    return Report("deadlines", "Quality against deadline", Table([head, *body_rows]), note, panels)


def _shares(load: Load, deadline: int | None) -> list[str]:
    if deadline is None:
        return ["", ""]
    seconds = [reply.seconds if reply.status == 200 else np.inf for reply in load.replies]
    return [f"{np.mean(np.array(seconds) <= factor * deadline / 1000):.1%}" for factor in (1.0, 1.1)]


def _quality(setup: BenchmarkSetup, case: Case, ids: list[str], load: Load) -> float:
    """nDCG@10 of what came back; a question without an answer has 0."""
    name = f"{case.method.replace(' ', '-')}.{case.deadline}.{case.clients}"
    path = Path(setup.work) / "runs" / f"deadline.{name}.trec"
    with atomic_write(path) as file:
        for qid, reply in zip(ids, load.replies, strict=True):
            for hit in reply.body["candidates"] if reply.status == 200 else ():
                file.write(f"{qid} Q0 {hit['docid']} {hit['rank']} {100 - hit['rank']} {name}\n")
    return float(compare(setup.topics(*NQ).qrels, [path], [MEASURE])[0].means[MEASURE])
