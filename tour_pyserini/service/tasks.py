"""Work that somebody waits for: a search, or passages to re-rank."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tour_pyserini.core.config import TourConfig
from tour_pyserini.service.label_calls import PATIENCE
from tour_pyserini.service.messages import Costs


@dataclass(eq=False, kw_only=True)
class Task:
    """Work that somebody waits for.

    Attributes:
        query: the text of the query.
        report: called from another thread with each message, the last one is the answer, or an exception.
        deadline_ms: milliseconds from its arrival to its answer; None: it has time.
        arrived: when it came, by the clock `time.monotonic`.
        cancelled: set when nobody waits for it any more.
        started: when its turn came.
        labelled: when it got its last labels, or was told that there is no time for more; 0: it asked for none.
    """

    query: str
    report: Callable[[Any], None]
    deadline_ms: float | None = None
    arrived: float = field(default_factory=time.monotonic)
    cancelled: threading.Event = field(default_factory=threading.Event)
    started: float = 0.0
    labelled: float = 0.0
    labels: int = 0
    scored: int = 0
    label_seconds: float = 0.0

    @property
    def deadline(self) -> float:
        """When the answer must be there."""
        return math.inf if self.deadline_ms is None else self.arrived + self.deadline_ms / 1000

    @property
    def due(self) -> float:
        """Whose turn it is: who is due first. Without a deadline, a task is due a while after it came."""
        return min(self.deadline, self.arrived + PATIENCE)

    def costs(self, updates: int) -> Costs:
        """What it has cost so far."""
        return Costs(
            labels=self.labels,
            scored=self.scored,
            updates=updates,
            milliseconds=round(1000 * (time.monotonic() - self.arrived), 3),
            waited_ms=round(1000 * (self.started - self.arrived), 3),
            label_ms=round(1000 * self.label_seconds, 3),
        )


@dataclass(eq=False, kw_only=True)
class Search(Task):
    """One query on its way to an `Answer`.

    Attributes:
        qid: its id, which the answer repeats.
        hits: length of its list.
        config: the method and its settings.
        streamed: whether every list is reported as a `Round`.
        rounds: whether the answer holds them.
    """

    hits: int
    config: TourConfig
    qid: str = ""
    streamed: bool = False
    rounds: bool = False


@dataclass(eq=False, kw_only=True)
class Reranking(Task):
    """Passages that are scored for a query; the answer is their raw scores [n]."""

    passages: Sequence[str]
