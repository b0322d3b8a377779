"""Searching with the workers of a Ray cluster: each opens the index and the models, and searches one batch at a time.

The batches are those that one process would search, and their results are written in their order, so the files are the
same. Ray starts a worker that died again, and gives it the batch that it was searching.
"""

import contextlib
import io
import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.opening import Opener
from tour_pyserini.rerankers.remote import is_service_address
from tour_pyserini.rerankers.reranker import display_name
from tour_pyserini.rerankers.score_cache import SqliteScores, is_server
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.searchers.hits import Hit
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.devices import cores
from tour_pyserini.support.files import score_cache
from tour_pyserini.support.packages import import_optional, load_plugins
from tour_pyserini.support.sqlite_cache import Model

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray: Any = import_optional("ray", extra="ray")
ray_scheduling: Any = import_optional("ray.util.scheduling_strategies", extra="ray")

DEATHS = 3
"""How often a batch is given to another worker because its worker died."""
_OBJECT_STORE = 256 << 20  # bytes; a batch and its results are small
_ANSWER_SECONDS = 10  # until a cluster has answered
_VARIABLES = "TOUR_PYSERINI_"  # environment variables with such names are the same in all workers

Batches = Sequence[tuple[Sequence[Any], Sequence[Any]]]
"""The ids and queries of each batch."""


class _RayScores:
    """A score cache that an actor of Ray's has open, where the file is.

    A worker's labels are in the file as soon as `put` returns: if the worker or its machine dies, they are not lost.
    """

    def __init__(self, path: str, model: Model) -> None:
        """Start the actor on this machine; Ray starts it again if it dies."""
        here = ray_scheduling.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
        self._actor = ray.remote(SqliteScores).options(**options).remote(path, model)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        return self._answer("get", list(keys))

    def put(self, scores: Mapping[bytes, float]) -> None:
        self._answer("put", dict(scores))

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        return set(keys)  # workers search different topics, so they do not wait for each other

    def release(self, keys: Sequence[bytes]) -> None:
        pass

    def close(self) -> None:
        pass  # the actor ends with the search

    def _answer(self, method: str, *arguments: Any) -> Any:
        return ray.get(getattr(self._actor, method).remote(*arguments))


class _Job(NamedTuple):
    """What a worker needs to search as the process that asks would."""

    request: SearchRequest
    scores: _RayScores | None
    folder: str
    variables: Mapping[str, str]


class _Answer(NamedTuple):
    """What a worker returns of a batch: query vectors [n, d], (docid, score) by topic id, lines for the files, costs.

    `told` is what its index tells for the record.
    """

    vectors: Floats
    hits: Mapping[str, Sequence[tuple[str, float]]]
    trace: str
    predictions: str
    costs: Costs
    told: Mapping[str, Any]


class SearchWorker:
    """Searches batches; the index and the models are opened for the first one."""

    def __init__(self) -> None:
        self._searcher: Any = None
        self._trace, self._predictions = io.StringIO(), io.StringIO()

    def search(self, job: _Job, ids: Sequence[str], queries: Sequence[Any]) -> _Answer | str:
        """The answer for a batch, or the sentence that says what is wrong with the input."""
        request = job.request
        try:
            if self._searcher is None:
                self._searcher = self._open(job)
            self._searcher.costs.taken()  # those of a batch that failed are not counted
            vectors, hits = self._searcher.batch_run(queries, ids, request.hits, request.threads)
        except TourError as error:
            return f"{error} (a Ray worker on {socket.gethostname()})"
        plain = {qid: [(hit.docid, float(hit.score)) for hit in found] for qid, found in hits.items()}
        trace, predictions = map(_taken, (self._trace, self._predictions))
        return _Answer(vectors, plain, trace, predictions, self._searcher.costs.taken(), self._searcher.index_record)

    def _open(self, job: _Job) -> Any:
        request = job.request
        os.environ.update(job.variables)
        with contextlib.suppress(OSError):
            os.chdir(job.folder)  # relative paths mean the same as where the command was given
        load_plugins(request.plugin)
        opener = Opener()
        reranker = opener.reranker(request, job.scores) if request.config.most_labels else None
        return opener.searcher(
            request,
            reranker,
            trace=self._trace if request.trace else None,
            predictions=self._predictions if request.predictions else None,
        )


class _RaySearcher:
    """Spreads batches over workers; `batch_run` gives their results one by one, as `TourSearcher.batch_run` does.

    Attributes:
        costs: the sum of the workers' costs so far.
        index_record: what their index tells for the record.
    """

    def __init__(self, job: _Job, workers: list[Any], batches: Batches, *files: tuple[IO[str] | None, str]) -> None:
        """Give the batches of ids and queries to the workers; `files` get what the named field of an answer has."""
        self.costs, self.index_record, self._files = Costs(), dict[str, Any](), files
        self._pool, shared = ray.util.ActorPool(workers), ray.put(job)
        for ids, queries in batches:
            self._pool.submit(lambda worker, batch: worker.search.remote(shared, *batch), ([*map(str, ids)], queries))

    def batch_run(self, queries: Any, q_ids: Sequence[str], k: int, threads: int) -> tuple[Floats, dict[str, Any]]:
        """The query vectors [n, d] and the hits by query id of the next batch, which must be the one that is named."""
        try:
            answer = self._pool.get_next()
        except ray.exceptions.RayActorError as error:
            raise TourError(
                f"workers died {DEATHS + 1} times while they searched the topics {q_ids[0]!r} to {q_ids[-1]!r} "
                f"({first_line(error)}); give them more memory: fewer --ray-workers, or a smaller --batch-size."
            ) from error
        if isinstance(answer, str):
            raise TourError(answer)
        for file, field in self._files:
            if file is not None:
                file.write(getattr(answer, field))
        self.costs, self.index_record = Costs.total([self.costs, answer.costs]), dict(answer.told)
        return answer.vectors, {qid: [Hit(*hit) for hit in found] for qid, found in answer.hits.items()}


@contextlib.contextmanager
def ray_searcher(
    request: SearchRequest,
    batches: Batches,
    *,
    reranker: Any,
    trace: IO[str] | None,
    predictions: IO[str] | None,
) -> Iterator[_RaySearcher]:
    """Connect to the request's Ray cluster, or start one on this machine for the time of the block.

    Args:
        request: what to search, and how.
        batches: ids and queries of each batch.
        reranker: the re-ranker, for its fingerprint; None if the method needs none.
        trace: where the lines of the trace go.
        predictions: where the lines of the predictions go.
    """
    with _cluster(request):
        scores = None
        if reranker is not None and not request.no_cache and not is_server(request.cache or ""):
            model = Model(reranker.fingerprint, display_name(reranker))
            scores = _RayScores(str(Path(request.cache or score_cache()).absolute()), model)
        threads = request.reranker_threads or (None if is_service_address(request.reranker) else _threads(request))
        job = _Job(
            replace(request, reranker_threads=threads, ray=None, ray_workers=None),
            scores,
            os.getcwd(),
            {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)},
        )
        workers = _start_workers(request, most=len(batches))
        yield _RaySearcher(job, workers, batches, (trace, "trace"), (predictions, "predictions"))


def _start_workers(request: SearchRequest, *, most: int) -> list[Any]:
    """Start the workers: as many as were asked for, or as the cluster has room for."""
    gpu, threads = request.device.startswith("cuda"), _threads(request)
    room = ray.cluster_resources()
    fit = int(room.get("GPU", 0) if gpu else room.get("CPU", 0) // threads)
    wanted = request.ray_workers or fit
    if not wanted or wanted > fit:
        needs = "1 GPU" if gpu else f"{threads} processors"
        raise TourError(
            f"the Ray cluster has room for {fit} workers with {needs} each, not for {max(wanted, 1)}; change "
            "--ray-workers, --threads or --reranker-threads."
        )
    options = {"num_cpus": threads, "num_gpus": int(gpu), "max_restarts": -1, "max_task_retries": DEATHS}
    worker = ray.remote(SearchWorker).options(**options)
    return [worker.remote() for _ in range(min(wanted, most))]


def _threads(request: SearchRequest) -> int:
    """Processors of a worker."""
    labelling = None if is_service_address(request.reranker) else request.reranker_threads
    return max(request.threads, labelling or 1)


@contextlib.contextmanager
def _cluster(request: SearchRequest) -> Iterator[None]:
    """Be connected to Ray during the block; what was started here is ended with it."""
    if ray.is_initialized():  # the program that called us is connected
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _connect(request)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray has set its own
        yield
    finally:
        ray.shutdown()


def _connect(request: SearchRequest) -> None:
    address, options = request.ray or "auto", {"logging_level": "ERROR", "log_to_driver": True}
    if address != "local":
        try:
            if address != "auto":  # Ray itself would try for minutes where nobody listens
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
            ray.init(address=address, **options)
            return
        except (OSError, ValueError, RuntimeError) as error:
            if address != "auto":
                raise TourError(
                    f"no Ray cluster can be reached at {address} ({first_line(error)}); give the address that "
                    "`ray start --head` printed, or --ray auto on one of its machines."
                ) from error
    os.environ.setdefault("RAY_worker_niceness", "0")  # workers have the priority of this process, not a lower one
    processors = max(cores(), (request.ray_workers or 1) * _threads(request))
    size = {"num_cpus": processors, "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    ray.init(address="local", **size, **options)


def _taken(lines: io.StringIO) -> str:
    """The lines that were written since the last time."""
    text = lines.getvalue()
    lines.seek(0)
    lines.truncate()
    return text
