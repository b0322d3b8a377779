"""Work that somebody waits for, a search or passages to re-rank, and the messages that are made of it."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.scheduler import Task
from tour_pyserini.data.texts import first_words
from tour_pyserini.errors import RequestError
from tour_pyserini.evaluation.query_path import PathLists
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.searchers.label_time import PATIENCE
from tour_pyserini.searchers.searcher import SearchRound, TourSearcher
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.messages import Answer, Candidate, Costs, Round, Settings
from tour_pyserini.stores.filters import Filter

_WORDS = 160
"""Characters of a passage's first words."""


@dataclass(eq=False, kw_only=True)
class Job:
    """Work that waits for its turn, and then for labels.

    Attributes:
        deadline_ms: milliseconds from its arrival to its answer; None: it has time.
        arrived: when it came, by the clock `time.monotonic`.
        turn: is done when its turn has come.
        started: when that was; 0: it waits.
        labels: labels so far.
        scored: those of them that the score cache did not have.
        label_seconds: how long it has waited for them.
        labelled: when it got the last ones, or was told that there is no time for more; 0: it asked for none.
    """

    deadline_ms: float | None = None
    arrived: float = field(default_factory=time.monotonic)
    turn: "asyncio.Future[None]" = field(init=False)
    started: float = 0.0
    labels: int = 0
    scored: int = 0
    label_seconds: float = 0.0
    labelled: float = 0.0

    @property
    def deadline(self) -> float:
        """When the answer must be there."""
        return math.inf if self.deadline_ms is None else self.arrived + self.deadline_ms / 1000

    @property
    def due(self) -> float:
        """Whose turn it is: who is due first. Without a deadline, a job is due a while after it came."""
        return min(self.deadline, self.arrived + PATIENCE)


@dataclass(eq=False, kw_only=True)
class SearchJob(Job):
    """One query on its way to an `Answer`.

    Attributes:
        query: its text.
        qid: its id, which the answer repeats.
        hits: length of its list.
        config: the method and its settings.
        min_relevance: hits with a lower probability of relevance are left out.
        allowed: which documents its key may find; None: all.
        filter: which of these it is to find; None: all.
        collection: what is searched, as it was when the job was taken in.
        streamed: whether every list is told as a `Round`.
        rounds: whether the answer holds them.
        task: where its method is; None before it begins.
        lists: the lists so far, where they are told.
        wanted: the pairs whose labels it waits for, and those labels [m] that the score cache has, NaN for the others.
        given: the labels [m] that its method gets next.
        answer: its answer, when its method has ended.
        error: why there is none.
    """

    query: str
    hits: int
    config: TourConfig
    min_relevance: float | None = None
    allowed: Filter | None = None
    filter: Filter | None = None
    collection: Collection = field(init=False)
    qid: str = ""
    streamed: bool = False
    rounds: bool = False
    task: Task | None = None
    lists: list[Round] = field(default_factory=list)
    wanted: tuple[Sequence[Pair], Floats] = ((), np.empty(0))
    given: Floats | None = None
    answer: Answer | None = None
    error: Exception | None = None
    _told: PathLists = field(default_factory=PathLists)
    _vectors: dict[str, Floats] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        """Whether its method has raised an exception: it cannot go on."""
        return self.task is not None and self.task.request is None and self.task.outcome is None

    def costs(self) -> Costs:
        """What it has cost so far."""
        return Costs(
            labels=self.labels,
            scored=self.scored,
            updates=self.task.updates if self.task else 0,
            milliseconds=round(1000 * (time.monotonic() - self.arrived), 3),
            waited_ms=round(1000 * (self.started - self.arrived), 3),
            label_ms=round(1000 * self.label_seconds, 3),
        )

    def settings(self) -> Settings:
        """How it is made."""
        return Settings(
            method=self.config.method,
            settings={
                name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
                for name, value in self.config.values().items()
            },
            most_labels=self.config.most_labels,
            hits=self.hits,
            deadline_ms=self.deadline_ms,
            index=self.collection.name,
            documents=self.collection.size_of(self.allowed),
            reranker=self.collection.reranker_name if self.config.most_labels else None,
        )

    def answer_with(self, searcher: TourSearcher) -> Answer:
        """Its answer, when its method has ended.

        Raises:
            RequestError: if its settings made scores that are no numbers.
        """
        assert self.task is not None and self.task.outcome is not None
        outcome = self.task.outcome
        if not np.isfinite(outcome.ranking.first(self.hits).scores).all():
            raise RequestError("with these settings, a score is not a finite number; choose smaller ones.")
        labels = {searcher.searcher.docids[id_]: label for id_, label in self.task.labels.items()}
        hits, candidates = searcher.hits_of(self.task, self.hits, min_relevance=self.min_relevance), []
        for rank, hit in enumerate(hits, start=1):
            text = str(self.collection.text(hit.docid))
            candidates.append(Candidate(**self._hit_fields(hit), rank=rank, text=text, label=labels.get(hit.docid)))
        return Answer(
            query=self.query,
            qid=self.qid,
            candidates=candidates,
            stop=outcome.stop,
            nothing=hits.nothing,
            settings=self.settings(),
            costs=self.costs(),
            rounds=self.lists if self.rounds else None,
        )

    def add_list(self, found: SearchRound, searcher: TourSearcher) -> None:
        """Keep the message of its next list."""
        docids = searcher.searcher.docids
        labels = {docids[id_]: label for id_, label in found.labels.items()}
        shown = dict.fromkeys([*(hit.position for hit in found.hits), *found.labels])
        fresh = [id_ for id_ in shown if docids[id_] not in self._vectors]
        if fresh and not searcher.encodes_passages:
            vectors = searcher.fetch(np.array(fresh, dtype=np.int64)).astype(np.float64)
            self._vectors |= {docids[id_]: vector for id_, vector in zip(fresh, vectors, strict=True)}
        names = [hit.docid for hit in found.hits]
        told = self._told.add(names, labels, t=found.updates, query=found.vector, vectors=self._vectors)
        for line, hit in zip(told["candidates"], found.hits, strict=True):
            line |= self._hit_fields(hit)
        self.lists.append(Round(**told, stop=found.stop, costs=self.costs()))

    def _hit_fields(self, hit: Any) -> dict[str, Any]:
        """What every candidate of a message has."""
        judgements, (title, text) = self.collection.judgements, self.collection.text(hit.docid).parts
        judged = judgements and judgements.grade(self.query, hit.docid)
        return {
            **{"docid": hit.docid, "score": float(hit.score), "relevance": hit.relevance, "judged": judged},
            **{"title": title, "words": first_words(text, _WORDS)},
        }
