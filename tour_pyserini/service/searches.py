"""Searches in flight: a bounded queue in fair order, and searches that advance together."""

import heapq
import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence

from tour_pyserini.errors import RequestError
from tour_pyserini.service.answering import Answering, FailedError
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.label_pool import CancelledError, LabelPool
from tour_pyserini.service.tasks import Task

log = logging.getLogger(__name__)

RECENT = 100
"""Searches that the time of a search is estimated from."""


class BusyError(Exception):
    """The queue is full, or the deadline would pass in it.

    Attributes:
        retry_after: whole seconds after which it is worth trying again.
    """

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = max(1, math.ceil(retry_after))


class Searches:
    """Runs searches of one collection: some at a time, the others wait in the order in which they are due.

    Args:
        collection: what is searched.
        pool: where labels come from.
        at_once: searches that advance together.
        queue: searches that may wait.
    """

    def __init__(self, collection: Collection, pool: LabelPool, *, at_once: int, queue: int) -> None:
        self.collection, self.pool = collection, pool
        self.answering = Answering(collection, pool)
        self.running = 0
        self._at_once, self._queue = at_once, queue
        self._waiting: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._seconds: deque[float] = deque(maxlen=RECENT)  # from the start of a search to its end
        self._threads = [
            threading.Thread(target=self._work, name=f"search-{number}", daemon=True) for number in range(at_once)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Searches that wait for their turn."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether a search that comes now is sent away."""
        return self._closing or self.waiting >= self._queue

    def submit(self, searches: Sequence[Task]) -> None:
        """Take searches in, all of them or none.

        Raises:
            BusyError: if there is no room for all of them, or one would wait past its deadline.
        """
        with self._changed:
            self._waiting = [entry for entry in self._waiting if not entry[2].cancelled.is_set()]
            heapq.heapify(self._waiting)
            idle = max(self._at_once - self.running - len(self._waiting), 0)
            wait = self._expected_wait()
            if self._closing:
                raise BusyError("the service is shutting down", 5)
            if len(self._waiting) + len(searches) > self._queue + idle:
                raise BusyError(f"{len(self._waiting)} searches are waiting already", wait)
            if any(search.arrived + wait > search.deadline for search in searches):
                raise BusyError("the deadline would pass in the queue", wait)
            for search in searches:
                heapq.heappush(self._waiting, (search.due, next(self._numbers), search))
            self._changed.notify(len(searches))

    def too_late(self) -> BusyError | None:
        """What is told to a search that has to begin now and still waits; None if its turn comes at once."""
        with self._changed:
            if self.running < self._at_once:
                return None
            return BusyError("the deadline has come in the queue", self._expected_wait())

    def close(self) -> None:
        """Finish what runs and what waits; nothing new is taken in."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _expected_wait(self) -> float:
        """Seconds until a search that comes now begins."""
        if self.running < self._at_once and not self._waiting:
            return 0.0
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return mean * (len(self._waiting) + 1) / self._at_once

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                *_, search = heapq.heappop(self._waiting)
                self.running += 1
                search.started = time.monotonic()
            try:
                if not search.cancelled.is_set():
                    self._run(search)
            finally:
                with self._changed:
                    self.running -= 1

    def _run(self, task: Task) -> None:
        try:
            answer = self.answering.answer(task)
        except CancelledError:
            return
        except Exception as error:
            if not isinstance(error, RequestError):  # then the reason is for the log only
                log.exception("a search failed")
                error = FailedError("the service has failed; its log says why.")
            task.report(error)
            return
        self._seconds.append(time.monotonic() - task.started)
        task.report(answer)
