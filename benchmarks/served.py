"""Services in processes of their own, and clients that ask them."""

import contextlib
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
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
    return (*files, "--reranker", reranker, "--port", 0, "--no-cache", "--no-mcp")


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


def new_client(url: str) -> httpx.Client:
    """A client with connections of its own."""
    return httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False)


class Load(NamedTuple):
    """What a load of requests gave: the replies in the order of the questions, and seconds from first to last."""

    replies: Sequence[Reply]
    seconds: float

    @property
    def rate(self) -> float:
        """Answers per second."""
        return sum(reply.status == 200 for reply in self.replies) / self.seconds

    def percentile(self, share: float) -> float:
        """Seconds in which that share of the answers was there."""
        return float(np.quantile([reply.seconds for reply in self.replies if reply.status == 200], share))


def closed_loop(url: str, queries: Sequence[str], *, clients: int, **body: Any) -> Load:
    """Ask all queries; each client asks its next one as soon as it has an answer."""
    numbers, lock = itertools.count(), threading.Lock()
    replies: dict[int, Reply] = {}

    def work(_: int) -> None:
        with new_client(url) as client:
            while True:
                with lock:
                    number = next(numbers)
                if number >= len(queries):
                    return
                replies[number] = ask(client, queries[number], **body)

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, range(clients)))
    return Load([replies[number] for number in range(len(queries))], time.perf_counter() - start)


def check_answered(load: Load, name: str) -> None:
    """Refuse to measure a service that did not answer."""
    failed = [reply for reply in load.replies if reply.status != 200]
    if failed:
        raise TourError(f"{name} answered {len(failed)} of {len(load.replies)} requests with {failed[0].status}.")
