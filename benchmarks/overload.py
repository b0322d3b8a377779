"""A service that gets more than it can take, for minutes: twice the requests, or connections that send half of one."""

import itertools
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.served import Load, Reply, ask, check_answered, closed_loop, new_client, questions, running, tour_flags
from tour_pyserini.evaluation.tables import Table

FACTOR = 2.0
CLIENTS = 256
"""Most requests in flight; the queue of the service is shorter."""
SAMPLES = 10
DESCRIPTORS = 1024
HALF_OPEN = 1042
"""Connections of the attack: more than the service may open descriptors."""
GOOD = 4
"""Clients that go on meanwhile."""


def measure_overload(setup: BenchmarkSetup) -> Report:
    """Requests at twice the measured capacity, at even distances, whether there are answers or not."""
    queries = questions(setup)
    memory: list[float] = []
    with running("tour_pyserini.serve", *tour_flags(setup), "--at-once", 8, "--queue", 16) as service:
        capacity = closed_loop(service.url, queries, clients=2 if setup.quick else 8).rate
        rate = FACTOR * capacity

        def watch(ended: threading.Event) -> None:
            while not ended.wait(setup.seconds / SAMPLES):
                memory.append(service.memory() / 2**20)

        with _Meanwhile(watch), new_client(service.url) as client, ThreadPoolExecutor(CLIENTS) as pool:
            start, futures = time.monotonic(), []
            for number, query in enumerate(itertools.cycle(queries)):
                due = start + number / rate
                if due > start + setup.seconds:
                    break
                time.sleep(max(due - time.monotonic(), 0))
                futures.append(pool.submit(ask, client, query))
            load = Load([future.result() for future in futures], time.monotonic() - start)
        check_answered(closed_loop(service.url, queries[:4], clients=1), "the service afterwards")
    answered, refused = load.of(200), load.of(429)
    figures = {
        "capacity, answers/s": f"{capacity:.2f}",
        f"requests in {load.seconds:.0f} s": str(len(load.replies)),
        "answered; share of the capacity": f"{len(answered.replies)}; {load.rate / capacity:.2f}",
        "sent away with 429, `Retry-After` and one sentence": str(sum(map(_is_well_formed, refused.replies))),
        "other statuses, or hanging": str(len(load.replies) - len(answered.replies) - len(refused.replies)),
        "p50 and p99 of answers, s": f"{answered.percentile(0.5):.2f}, {answered.percentile(0.99):.2f}",
        "memory, MiB: first tenth of the time, last": f"{memory[0]:.0f}, {memory[-1]:.0f}",
    }
    note = (
        f"{FACTOR:g} times the capacity, for TouR with the default re-ranker (8-bit): eight searches at once, and room "
        "for 16 that wait."
    )
    table = Table([["", "measured"], *([name, value] for name, value in figures.items())])
    return Report("overload", "Twice the capacity", table, note)


def _is_well_formed(reply: Reply) -> bool:
    return int(reply.headers.get("Retry-After", 0)) >= 1 and isinstance(reply.body.get("detail"), str)


def measure_half_open(setup: BenchmarkSetup) -> Report:
    """Good clients, each request on a connection of its own, before, during and after connections that send half."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(limits[1], 4096)), limits[1]))
    opened = itertools.count()
    with running(
        "tour_pyserini.serve", "--topics", "demo", "--port", 0, "--no-cache", descriptors=DESCRIPTORS
    ) as service:

        def ask_for(seconds: float) -> Load:  # what is measured is the service, not the re-ranker
            queries = itertools.repeat("which railway climbs to the summit")
            return closed_loop(service.url, queries, clients=GOOD, seconds=seconds, keep=False, method="dense")

        loads = {"before": ask_for(setup.seconds / 10)}
        with _Meanwhile(lambda ended: _attack(service.url, opened, ended)):
            loads["during"] = ask_for(setup.seconds)
        loads["after"] = ask_for(setup.seconds / 10)
    rows = [
        [
            *(name, str(len(load.replies)), f"{len(load.of(200).replies) / len(load.replies):.2%}"),
            *(f"{1000 * load.of(200).percentile(share):.0f}" for share in (0.5, 0.99)),
        ]
        for name, load in loads.items()
    ]
    head = ["attack", "requests", "answered", "p50, ms", "p99, ms"]
    note = (
        f"`ulimit -n {DESCRIPTORS}`; {HALF_OPEN} connections that send half of a request line, opened anew when "
        f"they are closed, {next(opened)} in {setup.seconds} s. {GOOD} clients search the embedded collection, each "
        "request on a new connection."
    )
    return Report("half-open", "Half-open connections", Table([head, *rows]), note)


def _attack(url: str, opened: "itertools.count[int]", ended: threading.Event) -> None:
    """Keep so many connections half-open until it is over, and count them."""
    address = (str(urlsplit(url).hostname), int(urlsplit(url).port or 80))
    with selectors.DefaultSelector() as selector:
        while not ended.is_set():
            while len(selector.get_map()) < HALF_OPEN and not ended.is_set():
                try:
                    one = socket.create_connection(address, timeout=1)
                    one.sendall(b"GET /health HT")
                except OSError:
                    break
                selector.register(one, selectors.EVENT_READ, one)
                next(opened)
            for key, _ in selector.select(timeout=0.1):  # closed by the service
                selector.unregister(key.fileobj)
                key.data.close()
        for key in list(selector.get_map().values()):
            key.data.close()


class _Meanwhile:
    """Does something in a thread until the block ends; it is given the event that says so."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=work, args=(self._ended,))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
