"""The scheduler: advances the methods of many queries together, and answers their requests in few calls."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids, Ranking
from tour_pyserini.core.fusion import POOL
from tour_pyserini.core.method import Label, Method, Neighbours, Outcome, Query, Request, Search, Vectors
from tour_pyserini.core.settings import MethodSettings
from tour_pyserini.errors import RequestError, TourError

SearchIndex = Callable[[Floats, int, Sequence[Query]], Hits]
"""Hits [n, k] of vectors [n, d] that belong to n queries, without what each excludes, and within what it may find."""
FetchVectors = Callable[[Ids], Floats]
"""Vectors [m, d] of documents [m], m > 0."""
LabelTasks = Callable[[Sequence["Task"]], Sequence[Floats]]
"""The labels that each of some tasks asks for (`Task.wanted_labels`); NaN where there is no time for one."""


class Round(NamedTuple):
    """A search of a query, and the labels that were asked for after it.

    Attributes:
        vector: [d] what was searched with.
        hits: what was found.
        ids: [m] the documents that got a label.
        labels: [m] their labels.
    """

    vector: Floats
    hits: Ranking
    ids: Ids = np.empty(0, dtype=np.int64)
    labels: Floats = np.empty(0)


class Task:
    """One query on its way through a method.

    Attributes:
        query: the query.
        request: what the method waits for; None when it has ended.
        outcome: what it left; None while it runs.
        rounds: what passed between the method and the scheduler so far: the trace of the query.
    """

    def __init__(self, method: Method, settings: MethodSettings, query: Query) -> None:
        """Begin; the first request is there at once."""
        self.query = query
        self.request: Request | None = None
        self.outcome: Outcome | None = None
        self.rounds: list[Round] = []
        self._method, self._settings = method, settings
        self._answers: list[Any] = []
        self._run = method.run(query, settings)
        self._continue(None)

    @property
    def result(self) -> Outcome:
        """The outcome of a task that has ended."""
        assert self.outcome is not None
        return self.outcome

    @property
    def waits_for_labels(self) -> bool:
        """Whether the next step needs the re-ranker."""
        return isinstance(self.request, Label)

    @property
    def wanted_labels(self) -> Ids:
        """[m] the documents whose labels it waits for."""
        return self.request.ids if isinstance(self.request, Label) else np.empty(0, dtype=np.int64)

    @property
    def labels(self) -> dict[int, float]:
        """All labels so far, by document."""
        return {
            id_: label for one in self.rounds for id_, label in zip(one.ids.tolist(), one.labels.tolist(), strict=True)
        }

    @property
    def updates(self) -> int:
        """How often the query vector was changed."""
        return sum(not np.array_equal(a.vector, b.vector) for a, b in zip(self.rounds, self.rounds[1:], strict=False))

    def answer(self, answer: Any) -> None:
        """Give the method what it asked for, and let it go on to its next request."""
        request = self.request
        if isinstance(request, Search):
            self.rounds.append(Round(request.vector, answer))
        elif isinstance(request, Label):
            last, in_time = self.rounds[-1], ~np.isnan(answer)
            ids = np.concatenate([last.ids, request.ids[in_time]])
            self.rounds[-1] = Round(last.vector, last.hits, ids, np.concatenate([last.labels, answer[in_time]]))
        self._answers.append(answer)
        self._continue(answer)

    def fork(self) -> "Task":
        """A second task in the same state: methods are functions of their answers, which are given once more."""
        other = Task(self._method, self._settings, self.query)
        for answer in self._answers:
            other.answer(answer)
        return other

    def _continue(self, answer: Any) -> None:
        try:
            self.request = self._run.send(answer)
        except StopIteration as end:
            self.request, self.outcome = None, end.value
            if not isinstance(end.value, Outcome):
                raise TourError(f"the method {self._method.name} ended without returning an Outcome.") from None
        except BaseException:
            self.request = None  # a generator that has failed cannot go on
            raise


class Scheduler:
    """Answers the requests of tasks from one index.

    A task's answers do not depend on the other tasks: whatever their number and order, its outcome is the same.
    """

    def __init__(self, search: SearchIndex, vectors: FetchVectors) -> None:
        """Answer requests from an index and the vectors of its documents."""
        self._search, self._vectors = search, vectors

    def run(self, tasks: Sequence[Task], label: LabelTasks) -> None:
        """Advance the tasks to their ends, in turns: one search of each, then labels, each in one call for all."""
        while running := [task for task in tasks if task.request is not None]:
            self._turn(running)
            waiting = [task for task in running if task.waits_for_labels]
            for task, labels in zip(waiting, label(waiting) if waiting else (), strict=True):
                task.answer(labels)

    def advance(self, tasks: Sequence[Task]) -> None:
        """Answer everything but labels, until each task has ended or waits for labels."""
        while running := [task for task in tasks if task.request is not None and not task.waits_for_labels]:
            self._turn(running)

    def _turn(self, tasks: Sequence[Task]) -> None:
        """Answer the searches of tasks, then vectors and neighbours, until they ask for something else."""
        self._answer_searches([(task, search) for task in tasks if isinstance(search := task.request, Search)])
        while waiting := [task for task in tasks if isinstance(task.request, Vectors | Neighbours)]:
            self._answer_vectors([(task, wanted) for task in waiting if isinstance(wanted := task.request, Vectors)])
            for task in waiting:
                if isinstance(task.request, Neighbours):
                    task.answer(self._find_neighbours(task.request, task.query))

    def preview(self, task: Task) -> Outcome:
        """What the method of a task would leave if it got no more labels; the task itself does not change."""
        fork = task.fork()
        self.run([fork], lambda tasks: [np.full(len(one.wanted_labels), np.nan) for one in tasks])
        return fork.result

    def _answer_searches(self, searches: Sequence[tuple[Task, Search]]) -> None:
        def hits(one: tuple[Task, Search]) -> int:
            task, search = one
            return max(search.hits, POOL) if task.query.fusion.signals else search.hits

        # What an approximate index finds may depend on how many hits are asked for: each gets what it asked for.
        for wanted, group in groupby(sorted(searches, key=hits), key=hits):
            tasks, requests = zip(*group, strict=True)
            vectors = np.stack([search.vector for search in requests])
            _check_finite(vectors, tasks)
            found = self._search(vectors, wanted, [task.query for task in tasks])
            for task, search, ids, similarities in zip(tasks, requests, *found, strict=True):
                real = ids >= 0
                ranking = Ranking(ids[real], similarities[real])
                fused = task.query.fusion.fuse(search.vector, ranking, self._vectors, wanted)
                task.answer(fused.first(search.hits))

    def _answer_vectors(self, requests: Sequence[tuple[Task, Vectors]]) -> None:
        if not requests:
            return
        vectors = self._vectors(np.concatenate([wanted.ids for _, wanted in requests]))
        ends = np.cumsum([len(wanted.ids) for _, wanted in requests])
        for (task, _), own in zip(requests, np.split(vectors, ends[:-1]), strict=True):
            task.answer(own)

    def _find_neighbours(self, request: Neighbours, query: Query) -> list[Ids]:
        ids, wanted = request
        if not len(ids):
            return []
        found = self._search(self._vectors(ids), wanted + 1, [query] * len(ids)).ids
        return [near[(near >= 0) & (near != id_)][:wanted] for id_, near in zip(ids.tolist(), found, strict=True)]


def _check_finite(vectors: Floats, tasks: Sequence[Task]) -> None:
    diverged = ~np.isfinite(vectors).all(axis=1)
    if diverged.any():
        name = tasks[int(diverged.argmax())].query.name
        raise RequestError(f"the vector of query {name!r} diverged; lower its step (learning_rate, momentum).")
