"""Services in processes of their own, and clients that ask them."""

import contextlib
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from tour_pyserini.errors import TourError

TIMEOUT = 300.0
"""Seconds after which a request counts as one that hangs."""


class Reply(NamedTuple):
    """What a client got: status (0: it hangs, or the connection broke), seconds, and the answer."""

    status: int
    seconds: float
    body: Any
    headers: Any


class RunningProgram:
    """A service that runs: its address, and its process."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def memory(self) -> int:
        """Bytes of memory that the process holds now; 0 where the system does not tell."""
        status = Path(f"/proc/{self.process.pid}/status")
        for line in status.read_text(encoding="utf-8").splitlines() if status.is_file() else ():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


@contextlib.contextmanager
def running(module: str, *flags: object, descriptors: int | None = None) -> Iterator[RunningProgram]:
    """Run `python -m module` until the block ends; the first line of its output is its address.

    Args:
        module: what runs.
        flags: its command line.
        descriptors: most files and connections that it may open.
    """
    limit = ("bash", "-c", f'ulimit -n {descriptors} && exec "$@"', "bash") if descriptors else ()
    command = [*limit, sys.executable, "-m", module, *map(str, flags)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                process.wait()
                errors.seek(0)
                raise TourError(f"{' '.join(command)} ended with {process.returncode}: {errors.read().strip()[-500:]}")
            yield RunningProgram(process, url)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tour_flags(setup: BenchmarkSetup, *, collection: str = NQ[0], reranker: object = "default") -> tuple[object, ...]:
    """Flags that serve a collection, by default with the service's own re-ranker; no label or query vector is kept."""
    files = ("--index", setup.index(collection), "--corpus", setup.corpus(collection), "--encoder", setup.encoder)
    return (*files, "--reranker", reranker, "--port", 0, "--no-cache")


def questions(setup: BenchmarkSetup) -> list[str]:
    """The questions of NQ that clients ask."""
    return [record["text"] for record in setup.topics(*NQ).records()]


def ask(client: httpx.Client, query: str, **body: Any) -> Reply:
    """Ask a service for ten passages."""
    start = time.perf_counter()
    try:
        answer = client.post("/search", json={"query": query, "hits": 10, **body})
    except httpx.HTTPError:
        return Reply(0, time.perf_counter() - start, None, {})
    return Reply(answer.status_code, time.perf_counter() - start, answer.json(), answer.headers)


def new_client(url: str, *, keep: bool = True) -> httpx.Client:
    """A client with connections of its own; with `keep`, they are kept open between requests."""
    limits = httpx.Limits(max_keepalive_connections=None if keep else 0)
    return httpx.Client(base_url=url, timeout=TIMEOUT, limits=limits, trust_env=False)


class Load(NamedTuple):
    """What a load of requests gave: the replies in the order of the questions, and seconds from first to last."""

    replies: Sequence[Reply]
    seconds: float

    def of(self, status: int) -> "Load":
        """The replies with a status."""
        return Load([reply for reply in self.replies if reply.status == status], self.seconds)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.of(200).replies) / self.seconds

    def percentile(self, share: float) -> float:
        """Seconds in which that share of the replies was there; NaN where there are none."""
        return float(np.quantile([reply.seconds for reply in self.replies] or [np.nan], share))


def closed_loop(
    url: str, queries: Iterable[str], *, clients: int, seconds: float = math.inf, keep: bool = True, **body: Any
) -> Load:
    """Ask queries, all of them or for so long; each client asks its next one as soon as it has an answer."""
    numbered, lock = enumerate(queries), threading.Lock()
    replies: dict[int, Reply] = {}
    start = time.perf_counter()

    def work(_: int) -> None:
        with new_client(url, keep=keep) as client:
            while True:  # at least once
                with lock:
                    number, query = next(numbered, (None, ""))
                if number is None:
                    return
                replies[number] = ask(client, query, **body)
                if time.perf_counter() > start + seconds:
                    return

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, range(clients)))
    return Load([replies[number] for number in sorted(replies)], time.perf_counter() - start)


def check_answered(load: Load, name: str) -> None:
    """Refuse to measure a service that did not answer."""
    failed = [reply for reply in load.replies if reply.status != 200]
    if failed:
        raise TourError(f"{name} answered {len(failed)} of {len(load.replies)} requests with {failed[0].status}.")
