"""Twice as many requests as a service can answer, for minutes: memory, requests that hang, and who is sent away."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.served import Reply, ask, closed_loop, new_client, questions, running, tour_flags
from tour_pyserini.evaluation.tables import Table

FACTOR = 2.0
CLIENTS = 256
"""Most requests in flight; the queue of the service is shorter."""
SAMPLES = 10


def measure_overload(setup: BenchmarkSetup) -> Report:
    """Requests at twice the measured capacity, at even distances, whether there are answers or not."""
    queries = questions(setup)
    memory: list[float] = []
    with running("tour_pyserini.serve", *tour_flags(setup), "--at-once", 8, "--queue", 16) as service:
        capacity = closed_loop(service.url, queries, clients=2 if setup.quick else 8).rate
        rate, ended = FACTOR * capacity, threading.Event()

        def watch() -> None:
            while not ended.wait(setup.seconds / SAMPLES):
                memory.append(service.memory() / 2**20)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with new_client(service.url) as client, ThreadPoolExecutor(CLIENTS) as pool:
            start, futures = time.monotonic(), []
            for number, query in enumerate(itertools.cycle(queries)):
                due = start + number / rate
                if due > start + setup.seconds:
                    break
                time.sleep(max(due - time.monotonic(), 0))
                futures.append(pool.submit(ask, client, query))
            replies = [future.result() for future in futures]
        seconds = time.monotonic() - start
        ended.set()
        watcher.join()
        after = closed_loop(service.url, queries[:4], clients=1)
    answered = [reply for reply in replies if reply.status == 200]
    refused = [reply for reply in replies if reply.status == 429]
    figures = {
        "capacity, answers/s": f"{capacity:.2f}",
        "requests/s, for so many seconds": f"{rate:.2f}, {seconds:.0f}",
        "requests": str(len(replies)),
        "answered; share of the capacity": f"{len(answered)}; {len(answered) / seconds / capacity:.2f}",
        "sent away with 429": str(len(refused)),
        "of these, with Retry-After and one sentence": str(sum(map(_is_well_formed, refused))),
        "other statuses": str(len(replies) - len(answered) - len(refused)),
        "hanging": str(sum(reply.status == 0 for reply in replies)),
        "p50 and p99 of answers, s": ", ".join(f"{_quantile(answered, share):.2f}" for share in (0.5, 0.99)),
        "p99 of those sent away, s": f"{_quantile(refused, 0.99):.3f}",
        "memory, MiB, after tenths of the time": ", ".join(f"{amount:.0f}" for amount in memory),
        "answers afterwards": f"{sum(reply.status == 200 for reply in after.replies)} of {len(after.replies)}",
    }
    note = (
        "Questions of NQ, TouR with at most 30 labels, the default re-ranker (8-bit), nothing kept between searches; "
        "eight searches at once and room for 16 that wait."
    )
    table = Table([["", "measured"], *([name, value] for name, value in figures.items())])
    return Report("overload", "Twice the capacity", table, note)


def _is_well_formed(reply: Reply) -> bool:
    return int(reply.headers.get("Retry-After", 0)) >= 1 and isinstance(reply.body.get("detail"), str)


def _quantile(replies: list[Reply], share: float) -> float:
    return float(np.quantile([reply.seconds for reply in replies], share)) if replies else 0.0
