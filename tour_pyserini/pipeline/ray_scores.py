"""The score cache of a search on a Ray cluster: one process beside the file, which all workers ask and tell."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from tour_pyserini.rerankers import SqliteScores
from tour_pyserini.rerankers.sqlite_scores import StoreStats
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

    def stats(self) -> StoreStats:
        """Count the scores and the bytes of the file."""
        return self._answer("stats")

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
