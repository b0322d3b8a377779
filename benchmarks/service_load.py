"""A service under load: pooled searches, one at a time, and a plain service, at 1 to 64 clients."""

from typing import Any

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.plain_service import DEPTH
from benchmarks.served import Load, check_answered, closed_loop, questions, running, tour_flags
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import Table

CLIENTS = (1, 16, 64)
LEAST_QUESTIONS = 16
"""Questions of a cell with few clients; with more, one for each client."""
POOLED, ALONE, PLAIN = "pooled", "one at a time", "plain service"


def measure_service(setup: BenchmarkSetup) -> Report:
    """Answers per second and seconds to an answer; the lists of both services of ours must be the same."""
    clients = (1, 2) if setup.quick else CLIENTS
    queries = questions(setup)[: max(*clients, LEAST_QUESTIONS)]
    room = ("--queue", max(len(queries), max(clients)))
    plain = ("--index", setup.index(NQ[0]), "--corpus", setup.corpus(NQ[0]), "--encoder", setup.encoder)
    # The plain service runs the model in torch: all have its fp32 weights, not the 8-bit graph of the default.
    ours = ("tour_pyserini.serve", *tour_flags(setup, reranker=setup.model), *room)
    commands = {
        POOLED: ours,
        ALONE: (*ours, "--at-once", 1),
        PLAIN: ("benchmarks.plain_service", *plain, "--model", setup.model),
    }
    loads: dict[tuple[str, str, int], Load] = {}
    lists: dict[str, list[str]] = {}
    for name, (module, *flags) in commands.items():
        with running(str(module), *flags) as service:
            for method, body in _bodies(name).items():
                check_answered(closed_loop(service.url, queries[:2], clients=1, **body), name)  # it warms up
                for count in clients:
                    some = queries[: max(count, LEAST_QUESTIONS)]
                    load = closed_loop(service.url, some, clients=count, **body)
                    check_answered(load, name)
                    loads[name, method, count] = load
                    if name != PLAIN:
                        _check_lists(lists, method, load)
    body_rows = [
        [str(count), name, method, *_figures(load, loads[PLAIN, _RERANK, count])]
        for (name, method, count), load in sorted(loads.items(), key=lambda item: item[0][2])
        if name != ALONE
    ]
    head = ["clients", "service", "method", "answers/s", "p50, ms", "p99, ms", "times as many answers"]
    alone = [load.rate for (name, method, _), load in loads.items() if (name, method) == (ALONE, _TOUR)]
    note = (
        f"{LEAST_QUESTIONS} questions of NQ in each cell, or one for each client; nothing is kept between searches. "
        "TouR with at most 30 labels; the plain service is FAISS and CrossEncoder.predict in torch behind FastAPI; "
        f"all have the same cross-encoder in fp32. With `--at-once 1`, TouR gave {min(alone):.2f} to {max(alone):.2f} "
        "answers/s, and the same lists to the last digit."
    )
    return Report("service", "A service under load", Table([head, *body_rows]), note)


_TOUR, _RERANK = "TouR", f"re-rank {DEPTH}"


def _bodies(name: str) -> dict[str, dict[str, Any]]:
    rerank: dict[str, Any] = {"method": "rerank", "settings": {"depth": DEPTH}}
    return {_RERANK: {}} if name == PLAIN else {_TOUR: {}, _RERANK: rerank}


def _figures(load: Load, plain: Load) -> list[str]:
    times = [f"{1000 * load.percentile(share):.0f}" for share in (0.5, 0.99)]
    return [f"{load.rate:.2f}", *times, f"{load.rate / plain.rate:.2f}"]


def _check_lists(lists: dict[str, list[str]], method: str, load: Load) -> None:
    """Searches must give the same lists, whatever else is searched."""
    found = [" ".join(f"{hit['docid']} {hit['score']!r}" for hit in reply.body["candidates"]) for reply in load.replies]
    known = lists.setdefault(method, found)
    lists[method] = max(known, found, key=len)
    if any(one != two for one, two in zip(known, found, strict=False)):
        raise TourError(f"the service gave different lists for the same questions ({method}).")
