"""Work that somebody waits for: a search, or passages to re-rank."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.scheduler import Task
from tour_pyserini.searchers.label_time import PATIENCE, LabelRequest
from tour_pyserini.service.messages import Costs, Round


@dataclass
class PendingLabels:
    """Labels that a job waits for.

    Attributes:
        request: asks for those that the score cache does not have.
        known: [n] those that it has, NaN for the others.
        missing: [m] where the others are.
        asked: when, by the clock `time.monotonic`.
    """

    request: LabelRequest
    known: Floats
    missing: Ids
    asked: float

    def take(self) -> Floats:
        """All labels [n]; NaN where there was no time.

        Raises:
            Exception: what the re-ranker raised.
        """
        if self.request.error is not None:
            raise self.request.error
        labels = self.known.copy()
        labels[self.missing] = self.request.scores
        return labels


@dataclass(eq=False, kw_only=True)
class Job:
    """Work that somebody waits for.

    Attributes:
        query: the text of the query.
        report: called from another thread with each message; the last one is the answer, or an exception.
        deadline_ms: milliseconds from its arrival to its answer; None: it has time.
        arrived: when it came, by the clock `time.monotonic`.
        cancelled: set when nobody waits for it any more.
        started: when its turn came.
        labelled: when it got its last labels, or was told that there is no time for more; 0: it asked for none.
        pending: the labels that it waits for.
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
    pending: PendingLabels | None = None

    @property
    def deadline(self) -> float:
        """When the answer must be there."""
        return math.inf if self.deadline_ms is None else self.arrived + self.deadline_ms / 1000

    @property
    def due(self) -> float:
        """Whose turn it is: who is due first. Without a deadline, a job is due a while after it came."""
        return min(self.deadline, self.arrived + PATIENCE)

    def take_labels(self) -> Floats:
        """The labels [n] that it has waited for; see `PendingLabels.take`."""
        pending, self.pending = self.pending, None
        assert pending is not None
        labels = pending.take()
        late = int(np.isnan(labels).sum())
        self.labels += len(labels) - late
        self.scored += len(pending.missing) - late
        self.labelled = time.monotonic()
        self.label_seconds += self.labelled - pending.asked
        return labels

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
class SearchJob(Job):
    """One query on its way to an `Answer`.

    Attributes:
        qid: its id, which the answer repeats.
        hits: length of its list.
        config: the method and its settings.
        streamed: whether every list is reported as a `Round`.
        rounds: whether the answer holds them.
        lists: the lists so far, where the answer holds them.
        task: where its method is.
        messages: what makes messages of its lists.
    """

    hits: int
    config: TourConfig
    qid: str = ""
    streamed: bool = False
    rounds: bool = False
    lists: list[Round] = field(default_factory=list)
    task: Task | None = None
    messages: Any = None


@dataclass(eq=False, kw_only=True)
class RerankJob(Job):
    """Passages that are scored for a query; the answer is their raw scores [n]."""

    passages: Sequence[str]
