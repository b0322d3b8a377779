"""Quality against deadline: what comes back in 100, 300 and 1,000 ms, of TouR and of re-ranking."""

from pathlib import Path

import numpy as np

from benchmarks.benchmark_report import Lines, Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.served import Load, check_answered, closed_loop, questions, running, tour_flags
from tour_pyserini.evaluation.comparison import compare
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.support.files import atomic_write

DEADLINES = (100, 300, 1000)
MEASURE = "nDCG@10"
METHODS: dict[str, dict[str, object]] = {
    "dense": {"method": "dense"},
    "TouR": {},
    "re-rank 30": {"method": "rerank", "settings": {"depth": 30}},
}


def measure_deadlines(setup: BenchmarkSetup) -> Report:
    """Share of deadlines that are met, labels bought in time, and nDCG@10 of what comes back."""
    topics = questions(setup)
    queries, ids = [topic["text"] for topic in topics], [topic["_id"] for topic in topics]
    loads: dict[tuple[str, int | None], Load] = {}
    with running("tour_pyserini.serve", *tour_flags(setup)) as service:
        # Labels have other costs than the few that were measured at the start: the forecast learns from these.
        check_answered(closed_loop(service.url, queries[:20], clients=1), "the service")
        for deadline in (*DEADLINES, None):
            for name, body in METHODS.items():
                if name == "dense" and deadline is not None:
                    continue
                options = body if deadline is None else {**body, "deadline_ms": deadline}
                loads[name, deadline] = closed_loop(service.url, queries, clients=1, **options)
    qualities = {case: _quality(setup, f"{case[0]}-{case[1]}", ids, load) for case, load in loads.items()}
    body_rows = [
        [
            "none" if deadline is None else str(deadline),
            name,
            *_shares(load, deadline),
            f"{1000 * load.percentile(0.99):.0f}",
            f"{np.mean([reply.body['costs']['labels'] for reply in load.replies if reply.status == 200]):.1f}",
            f"{qualities[name, deadline]:.4f}",
        ]
        for (name, deadline), load in loads.items()
    ]
    head = ["deadline, ms", "method", "met", "met by 1.1 times", "p99, ms", "labels", MEASURE]
    note = (
        f"{len(queries)} questions of NQ, one client, the cross-encoder in fp32, nothing kept between searches; the "
        "time is what the client measures. TouR buys at most 30 labels, re-ranking 30."
    )
    curves = {
        name: [(deadline, qualities[name, deadline]) for deadline in DEADLINES] for name in METHODS if name != "dense"
    }
    panels = [Lines("deadline, ms", MEASURE, curves)]
    return Report("deadlines", "Quality against deadline", Table([head, *body_rows]), note, panels)


def _shares(load: Load, deadline: int | None) -> list[str]:
    if deadline is None:
        return ["", ""]
    seconds = [reply.seconds if reply.status == 200 else np.inf for reply in load.replies]
    return [f"{np.mean(np.array(seconds) <= factor * deadline / 1000):.1%}" for factor in (1.0, 1.1)]


def _quality(setup: BenchmarkSetup, name: str, ids: list[str], load: Load) -> float:
    """nDCG@10 of what came back; a question without an answer has 0."""
    path = Path(setup.work) / "runs" / f"deadline.{name.replace(' ', '-')}.trec"
    with atomic_write(path) as file:
        for qid, reply in zip(ids, load.replies, strict=True):
            for hit in reply.body["candidates"] if reply.status == 200 else ():
                file.write(f"{qid} Q0 {hit['docid']} {hit['rank']} {100 - hit['rank']} {name.split()[0]}\n")
    return float(compare(setup.topics(*NQ).qrels, [path], [MEASURE])[0].means[MEASURE])
