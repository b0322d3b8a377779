"""Quality against deadline: what comes back in 100, 300 and 1,000 ms, of TouR and of re-ranking."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.served import Load, check_answered, closed_loop, running, tour_flags
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.support.files import atomic_write

COLLECTIONS = {"NQ": NQ, "SciFact": ("scifact", "test")}
"""Short passages, most of them found by the first retrieval; and long ones that are not."""
DEADLINES = (100, 300, 1000)
CLIENTS = (1, 4)
WARM_UP = 20
"""Questions that the forecast of label costs learns from before anything is measured."""
MEASURE = "nDCG@10"
DENSE = "dense"
METHODS: dict[str, dict[str, Any]] = {
    DENSE: {"method": "dense"},
    "TouR": {},
    "re-rank 30": {"method": "rerank", "settings": {"depth": 30}},
}


class Case(NamedTuple):
    """What is measured: a collection, a deadline in milliseconds or None, clients at the same time, and a method."""

    collection: str
    deadline: int | None
    clients: int
    method: str


def measure_deadlines(setup: BenchmarkSetup) -> Report:
    """Share of deadlines that are met, labels bought in time, and nDCG@10 of what comes back."""
    clients = CLIENTS[:1] if setup.quick else CLIENTS
    loads: dict[Case, Load] = {}
    for name, (folder, split) in COLLECTIONS.items():
        queries = [record["text"] for record in setup.topics(folder, split).records()]
        with running("tour_pyserini.serve", *tour_flags(setup, collection=folder)) as service:
            check_answered(closed_loop(service.url, queries[:WARM_UP], clients=1), "the service")
            for case in _cases(name, clients):
                options = METHODS[case.method] | ({} if case.deadline is None else {"deadline_ms": case.deadline})
                loads[case] = closed_loop(service.url, queries, clients=case.clients, **options)
    qualities = {case: _quality(setup, case, load) for case, load in loads.items()}
    body_rows = [
        [
            case.collection,
            "none" if case.deadline is None else str(case.deadline),
            str(case.clients),
            case.method,
            "" if case.deadline is None else f"{_met(load, case.deadline):.1%}",
            f"{1000 * load.of(200).percentile(0.99):.0f}",
            f"{np.mean([reply.body['costs']['labels'] for reply in load.of(200).replies]):.1f}",
            f"{qualities[case]:.4f}",
        ]
        for case, load in loads.items()
    ]
    head = ["collection", "deadline, ms", "clients", "method", "met", "p99, ms", "labels", MEASURE]
    nearly = min(_met(load, case.deadline, 1.1) for case, load in loads.items() if case.deadline is not None)
    counts = {case.collection: len(load.replies) for case, load in loads.items()}
    note = (
        f"{' and '.join(f'{count} questions of {name}' for name, count in counts.items())}, vectors alone, the default "
        "re-ranker (8-bit), nothing kept between searches; clients ask again as soon as they have an answer, and the "
        f"time is what they measure. {'All' if nearly == 1 else f'At least {nearly:.1%} of the'} answers came within "
        "1.1 times the deadline. TouR buys at most 30 labels."
    )
    return Report("deadlines", "Quality against deadline", Table([head, *body_rows]), note)


def _cases(collection: str, clients: Sequence[int]) -> list[Case]:
    """With short deadlines, the methods that buy labels; TouR for several clients; without a deadline, all methods."""
    late = [method for method in METHODS if method != DENSE]
    return [
        *(Case(collection, deadline, 1, method) for deadline in DEADLINES[:2] for method in late),
        *(Case(collection, deadline, count, "TouR") for deadline in DEADLINES for count in clients[1:]),
        *(Case(collection, None, 1, method) for method in METHODS),
    ]


def _met(load: Load, deadline: int, factor: float = 1.0) -> float:
    """The share of requests that were answered within a deadline in milliseconds, times a factor."""
    seconds = [reply.seconds if reply.status == 200 else np.inf for reply in load.replies]
    return float(np.mean(np.array(seconds) <= factor * deadline / 1000))


def _quality(setup: BenchmarkSetup, case: Case, load: Load) -> float:
    """nDCG@10 of what came back; a question without an answer has 0."""
    topics = setup.topics(*COLLECTIONS[case.collection])
    name = "-".join(map(str, case)).replace(" ", "-")
    path = Path(setup.work) / "runs" / f"deadline.{name}.trec"
    with atomic_write(path) as file:
        for question, reply in zip(topics.records(), load.replies, strict=True):
            for hit in reply.body["candidates"] if reply.status == 200 else ():
                file.write(f"{question['_id']} Q0 {hit['docid']} {hit['rank']} {100 - hit['rank']} {name}\n")
    return float(compare(topics.qrels, [path], [MEASURE])[0].means[MEASURE])
