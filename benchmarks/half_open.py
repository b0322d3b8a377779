"""Connections that never finish a request line, more of them than the service may open descriptors, for minutes."""

import resource
import selectors
import socket
import threading
import time
from urllib.parse import urlsplit

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.served import Reply, ask, new_client, running
from tour_pyserini.evaluation.tables import Table

DESCRIPTORS = 1024
CONNECTIONS = 1042
CLIENTS = 4
BODY = {"method": "dense"}
"""What is measured is the service, not the re-ranker."""


def measure_half_open(setup: BenchmarkSetup) -> Report:
    """Good clients, each request on a connection of its own, before, during and after the attack."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(limits[1], 4096)), limits[1]))
    flags = ("--topics", "demo", "--port", 0, "--no-cache")
    with running("tour_pyserini.serve", *flags, descriptors=DESCRIPTORS) as service:
        before = _good_clients(service.url, setup.seconds / 10)
        ended = threading.Event()
        opened: list[int] = []
        attacker = threading.Thread(target=lambda: opened.append(_attack(service.url, ended)))
        attacker.start()
        during = _good_clients(service.url, setup.seconds)
        ended.set()
        attacker.join()
        after = _good_clients(service.url, setup.seconds / 10)
    rows = [
        [name, str(len(replies)), f"{np.mean([one.status == 200 for one in replies]):.2%}", *_times(replies)]
        for name, replies in (("before", before), ("during", during), ("after", after))
    ]
    head = ["attack", "requests", "answered", "p50, ms", "p99, ms"]
    note = (
        f"`ulimit -n {DESCRIPTORS}`; {CONNECTIONS} connections that send half of a request line, opened anew when "
        f"they are closed, {opened[0]} in {setup.seconds} s. {CLIENTS} clients search the embedded collection, each "
        "request on a new connection."
    )
    return Report("half-open", "Half-open connections", Table([head, *rows]), note)


def _times(replies: list[Reply]) -> list[str]:
    seconds = [one.seconds for one in replies if one.status == 200]
    return [f"{1000 * np.quantile(seconds, share):.0f}" if seconds else "" for share in (0.5, 0.99)]


def _good_clients(url: str, seconds: float) -> list[Reply]:
    """What clients get that ask again as soon as they have an answer."""
    replies: list[Reply] = []
    end = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < end:
            with new_client(url) as client:
                replies.append(ask(client, "which railway climbs to the summit", **BODY))

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def _attack(url: str, ended: threading.Event) -> int:
    """Keep so many connections half-open until it is over; how many were opened."""
    address, opened = (str(urlsplit(url).hostname), int(urlsplit(url).port or 80)), 0
    with selectors.DefaultSelector() as selector:
        while not ended.is_set():
            while len(selector.get_map()) < CONNECTIONS and not ended.is_set():
                try:
                    one = socket.create_connection(address, timeout=1)
                    one.sendall(b"GET /health HT")
                except OSError:
                    break
                selector.register(one, selectors.EVENT_READ, one)
                opened += 1
            for key, _ in selector.select(timeout=0.1):  # closed by the service
                selector.unregister(key.fileobj)
                key.data.close()
        for key in list(selector.get_map().values()):
            key.data.close()
    return opened
