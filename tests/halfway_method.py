"""A method defined outside the package, with settings of its own."""

import contextlib
from dataclasses import dataclass

from tour_pyserini.core import method as registry
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Outcome, Search, StopReason, method, register_method
from tour_pyserini.core.settings import AT_LEAST_1, SHARE, MethodSettings, setting


@dataclass(frozen=True, kw_only=True)
class HalfwaySettings(MethodSettings):
    """How far the query moves, and to which candidate."""

    depth: int = setting(4, "candidates that are labelled", rule=AT_LEAST_1)
    share: float = setting(0.5, "how much of the way the query moves", rule=SHARE)
    goal: str = setting("best", "the candidate that it moves to", choices=("best", "worst"))
    back: bool = setting(False, "move away instead")

    @property
    def most_labels(self):
        return self.depth


@method(HalfwaySettings)
def halfway(query, settings):
    """Move the query part of the way to the candidate with the highest, or lowest, label."""
    pool, q = LabelPool(query), query.vector
    found = yield Search(q, max(query.hits, settings.depth))
    yield from pool.add(found.ids[: settings.depth])
    if len(pool):
        goal = pool.labels.argmax() if settings.goal == "best" else pool.labels.argmin()
        share = -settings.share if settings.back else settings.share
        q = (q + share * (pool.vectors[goal] - q)).astype(q.dtype)
        found = yield Search(q, query.hits)
    return Outcome(q, found, StopReason.ROUNDS)


@contextlib.contextmanager
def registered(added):
    """Register a method, and forget it at the end."""
    register_method(added)
    try:
        yield
    finally:
        del registry._METHODS[added.name]
