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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from tour_pyserini.batches import Batch, searched, told_by_index, topic_batches
from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers import SqliteScores
from tour_pyserini.rerankers.remote import is_service_address
from tour_pyserini.rerankers.reranker import display_name
from tour_pyserini.rerankers.score_cache import is_server
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.devices import cores
from tour_pyserini.support.files import score_cache
from tour_pyserini.support.packages import import_optional, load_plugins
from tour_pyserini.support.sqlite_cache import Model


class RayScores:
    """Scores by key, read and written by an actor of Ray's that has the file open.

    A worker's labels are in the file as soon as `put` returns: if the worker or its machine dies, they are not lost.

    Args:
        actor: a handle of a `SqliteScores` that runs as an actor.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """The scores of those keys that are stored."""
        return self._answer("get", list(keys))

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store all of the scores or none; a key that is already stored keeps its score."""
        self._answer("put", dict(scores))

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        """All of the keys: workers search different topics, so they do not wait for each other."""
        return set(keys)

    def release(self, keys: Sequence[bytes]) -> None:
        """Nothing to do: nothing was claimed."""

    def count(self) -> int:
        """The number of scores."""
        return self._answer("count")

    def close(self) -> None:
        """Nothing to do: the actor ends with the search."""

    def _answer(self, method: str, *arguments: Any) -> Any:
        import ray

        return ray.get(getattr(self._actor, method).remote(*arguments))


def start_ray_scores(path: str, model: Model) -> RayScores:
    """Start the actor on this machine, where the file is; Ray starts it again if it dies."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = ray.remote(SqliteScores).options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)
    return RayScores(actor.remote(path, model))


DEATHS = 3
"""How often a batch is given to another worker because its worker died."""
_OBJECT_STORE = 256 << 20  # bytes; a batch and its results are small
_ANSWER_SECONDS = 10  # until a cluster has answered
_VARIABLES = "TOUR_PYSERINI_"  # environment variables with such names are the same in all workers

OpenEngine = Callable[[SearchRequest, IO[str] | None, IO[str] | None, RayScores | None], Any]
"""Opens TouR in a worker: `open_engine(request, trace, predictions, scores)`."""


class _Opening(NamedTuple):
    """What a worker needs to open TouR as the process that asks would."""

    open_engine: OpenEngine
    request: SearchRequest
    scores: RayScores | None
    folder: str
    variables: Mapping[str, str]


class _Answer(NamedTuple):
    """What a worker returns of a batch: query vectors [n, d], (docid, score) by topic id, and lines for the files.

    `told` is what `told_by_index` says of the worker's index.
    """

    vectors: Floats
    hits: Mapping[str, Sequence[tuple[str, float]]]
    trace: str
    predictions: str
    costs: Costs
    told: Mapping[str, Any]


@dataclass
class _Hit:
    docid: str
    score: float


class SearchWorker:
    """Searches batches; the index and the models are opened for the first one."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._trace, self._predictions = io.StringIO(), io.StringIO()

    def search(
        self, opening: _Opening, ids: Sequence[Any], queries: Sequence[Any], hits: int, threads: int
    ) -> _Answer | str:
        """The answer for a batch, or the sentence that says what is wrong with the input."""
        try:
            if self._engine is None:
                self._engine = self._open(opening)
            self._engine.costs.taken()  # those of a batch that failed are not counted
            batch = searched(self._engine, ids, queries, hits=hits, threads=threads)
        except TourError as error:
            return f"{error} (a Ray worker on {socket.gethostname()})"
        plain = {qid: [(hit.docid, float(hit.score)) for hit in found] for qid, found in batch.hits.items()}
        trace, predictions = map(_taken, (self._trace, self._predictions))
        return _Answer(
            batch.vectors, plain, trace, predictions, self._engine.costs.taken(), told_by_index(self._engine)
        )

    def _open(self, opening: _Opening) -> Any:
        open_engine, request, scores, folder, variables = opening
        os.environ.update(variables)
        with contextlib.suppress(OSError):
            os.chdir(folder)  # relative paths mean the same as where the command was given
        load_plugins(request.plugin)
        return open_engine(
            request,
            self._trace if request.trace else None,
            self._predictions if request.predictions else None,
            scores,
        )


class RaySearcher:
    """Spreads batches over workers; `costs` are the sum of theirs, `told` is what their index told.

    Args:
        opening: what the workers open.
        trace: where the lines of the trace go.
        predictions: where the lines of the predictions go.
    """

    def __init__(self, opening: _Opening, *, trace: IO[str] | None, predictions: IO[str] | None) -> None:
        self.costs, self.told = Costs(), dict[str, Any]()
        self._opening, self._trace, self._predictions = opening, trace, predictions

    def search_topics(
        self, topics: Iterable[tuple[Any, Any]], *, hits: int, batch_size: int, threads: int
    ) -> Iterator[Batch]:
        """Search the topics; the batches come in their order, each as soon as it and those before it are there."""
        import ray
        from ray.exceptions import RayActorError
        from ray.util import ActorPool

        batches = list(topic_batches(topics, batch_size))
        pool, opening = ActorPool(self._workers(most=len(batches))), ray.put(self._opening)
        for batch in batches:
            pool.submit(lambda worker, batch: worker.search.remote(opening, *batch, hits, threads), batch)
        for ids, queries in batches:
            try:
                answer = pool.get_next()
            except RayActorError as error:
                raise TourError(
                    f"workers died {DEATHS + 1} times while they searched the topics {ids[0]!r} to {ids[-1]!r} "
                    f"({first_line(error)}); give them more memory: fewer --ray-workers, or a smaller --batch-size."
                ) from error
            if isinstance(answer, str):
                raise TourError(answer)
            for file, lines in ((self._trace, answer.trace), (self._predictions, answer.predictions)):
                if file is not None:
                    file.write(lines)
            self.costs, self.told = Costs.total([self.costs, answer.costs]), dict(answer.told)
            yield Batch(
                ids,
                queries,
                answer.vectors,
                {qid: [_Hit(docid, score) for docid, score in found] for qid, found in answer.hits.items()},
            )

    def _workers(self, *, most: int) -> list[Any]:
        """Start the workers: as many as were asked for, or as the cluster has room for."""
        import ray

        request = self._opening.request
        gpu, threads = request.device.startswith("cuda"), _threads(request)
        room = ray.cluster_resources()  # type: ignore[no-untyped-call]
        fit = int(room.get("GPU", 0) if gpu else room.get("CPU", 0) // threads)
        wanted = request.ray_workers or fit
        if not wanted or wanted > fit:
            needs = "1 GPU" if gpu else f"{threads} processors"
            raise TourError(
                f"the Ray cluster has room for {fit} workers with {needs} each, not for {max(wanted, 1)}; change "
                "--ray-workers, --threads or --reranker-threads."
            )
        worker = ray.remote(SearchWorker).options(
            num_cpus=threads, num_gpus=int(gpu), max_restarts=-1, max_task_retries=DEATHS
        )
        return [worker.remote() for _ in range(min(wanted, most))]


@contextlib.contextmanager
def ray_searcher(
    request: SearchRequest,
    open_engine: OpenEngine,
    *,
    reranker: Any,
    trace: IO[str] | None,
    predictions: IO[str] | None,
) -> Iterator[RaySearcher]:
    """Connect to the request's Ray cluster, or start one on this machine for the time of the block.

    Args:
        request: what to search, and how.
        open_engine: opens TouR in a worker; a function of a module.
        reranker: the re-ranker, for its fingerprint; None if the method needs none.
        trace: where the lines of the trace go.
        predictions: where the lines of the predictions go.
    """
    with _cluster(request):
        scores = None
        if reranker is not None and not request.no_cache and not is_server(request.cache or ""):
            model = Model(reranker.fingerprint, display_name(reranker))
            scores = start_ray_scores(str(Path(request.cache or score_cache()).absolute()), model)
        threads = request.reranker_threads or (None if is_service_address(request.reranker) else _threads(request))
        opening = _Opening(
            open_engine,
            replace(request, reranker_threads=threads),
            scores,
            os.getcwd(),
            {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)},
        )
        yield RaySearcher(opening, trace=trace, predictions=predictions)


def _threads(request: SearchRequest) -> int:
    """Processors of a worker."""
    labelling = None if is_service_address(request.reranker) else request.reranker_threads
    return max(request.threads, labelling or 1)


@contextlib.contextmanager
def _cluster(request: SearchRequest) -> Iterator[None]:
    """Be connected to Ray during the block; what was started here is ended with it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_optional("ray", extra="ray")
    import_optional("ray.util", extra="ray")
    if ray.is_initialized():  # the program that called us is connected
        yield
        return
    address = request.ray or "auto"
    if address.startswith("ray://"):
        raise TourError(
            f"--ray {address} is the address of Ray's client; run the command on a machine of the cluster, with "
            "--ray auto."
        )
    with _signal_handlers():
        _connect(ray, address, request)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str, request: SearchRequest) -> None:
    options = {"logging_level": "ERROR", "log_to_driver": True}
    if address != "local":
        try:
            _check_answers(address)
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
    ray.init(
        address="local",
        num_cpus=processors,
        object_store_memory=_OBJECT_STORE,
        include_dashboard=False,
        **options,
    )


def _check_answers(address: str) -> None:
    """Raise an OSError or a ValueError if nobody listens at HOST:PORT; Ray itself would try for minutes."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()


@contextlib.contextmanager
def _signal_handlers() -> Iterator[None]:
    """Keep the handlers of this process: Ray replaces that of SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _taken(lines: io.StringIO) -> str:
    """The lines that were written since the last time."""
    text = lines.getvalue()
    lines.seek(0)
    lines.truncate()
    return text
