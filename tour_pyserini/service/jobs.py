"""Work that somebody waits for, a search or passages to re-rank, and the messages that are made of it."""

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
from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import RequestError
from tour_pyserini.evaluation.path_page import projected
from tour_pyserini.evaluation.query_path import first_words
from tour_pyserini.searchers.label_time import PATIENCE
from tour_pyserini.searchers.searcher import SearchRound, TourSearcher
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.label_thread import PendingLabels
from tour_pyserini.service.messages import Answer, Candidate, Costs, Map, QueryInfo, Round, Settings

WORDS = 160
"""Characters of a passage's first words."""


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
        labels: labels so far.
        scored: those of them that the score cache did not have.
        label_seconds: how long it has waited for them.
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


@dataclass(eq=False, kw_only=True)
class RerankJob(Job):
    """Passages that are scored for a query; the answer is their raw scores [n]."""

    passages: Sequence[str]


@dataclass(eq=False, kw_only=True)
class SearchJob(Job):
    """One query on its way to an `Answer`.

    Attributes:
        qid: its id, which the answer repeats.
        hits: length of its list.
        config: the method and its settings.
        streamed: whether every list is reported as a `Round`.
        rounds: whether the answer holds them.
        task: where its method is; None before it begins.
        lists: the lists so far, where they are told.
    """

    hits: int
    config: TourConfig
    qid: str = ""
    streamed: bool = False
    rounds: bool = False
    task: Task | None = None
    lists: "RoundMessages | None" = None

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

    def settings_in(self, collection: Collection) -> Settings:
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
            index=collection.name,
            documents=collection.size,
            reranker=collection.reranker_name if self.config.most_labels else None,
        )

    def next_list(self, found: SearchRound, collection: Collection, searcher: TourSearcher) -> Round:
        """The message of its next list."""
        if self.lists is None:
            vectors = None if searcher.encodes_passages else searcher.fetch
            self.lists = RoundMessages(searcher.searcher.docids, collection.text, vectors)
        return self.lists.add(found, self.costs())

    def answer_in(self, collection: Collection, searcher: TourSearcher) -> Answer:
        """Its answer, when its method has ended.

        Raises:
            RequestError: if its settings made scores that are no numbers.
        """
        assert self.task is not None and self.task.outcome is not None
        outcome, labels = self.task.outcome, self.task.labels
        ids, scores = outcome.ranking.first(self.hits)
        if not np.isfinite(scores).all():
            raise RequestError("with these settings, a score is not a finite number; choose smaller ones.")
        candidates = []
        for rank, (hit, id_) in enumerate(zip(searcher.hits(outcome, self.hits), ids.tolist(), strict=True), start=1):
            text = collection.text(hit.docid)
            candidates.append(Candidate(**shown_hit(hit, rank, text), document_txt=str(text), label=labels.get(id_)))
        return Answer(
            query=QueryInfo(qid=self.qid, query_txt=self.query),
            candidates=candidates,
            stop=outcome.stop,
            settings=self.settings_in(collection),
            costs=self.costs(),
            rounds=self.lists.messages if self.rounds and self.lists else None,
        )


class RoundMessages:
    """Makes the message of each list of one search, in their order.

    Args:
        docids: the docid of each position of the index.
        text: the passage of a document.
        vectors: vectors [m, d] of positions [m]; None if passages would have to be encoded for it.

    Attributes:
        messages: those made so far.
    """

    def __init__(
        self,
        docids: Sequence[str],
        text: Callable[[str], str],
        vectors: Callable[[Ids], Floats] | None,
    ) -> None:
        self._docids, self._text, self._vectors_of = docids, text, vectors
        self._vectors: dict[int, Floats] = {}
        self._queries: list[Floats] = []
        self._labels: dict[int, float] = {}
        self.messages: list[Round] = []

    def add(self, found: SearchRound, costs: Costs) -> Round:
        """The message of the next list."""
        before = self._queries[-1] if self._queries else None
        if len(self._queries) <= found.updates:
            self._queries.append(found.vector.astype(np.float64))
        self._fetch([*found.ids.tolist(), *found.labels])
        ranks_before = {hit.docid: hit.rank for hit in self.messages[-1].candidates} if self.messages else {}
        candidates = []
        for rank, (hit, id_) in enumerate(zip(found.hits, found.ids.tolist(), strict=True), start=1):
            vector = self._vectors.get(id_)
            candidates.append(
                Candidate(
                    **shown_hit(hit, rank, self._text(hit.docid)),
                    label=found.labels.get(id_),
                    bought=id_ in found.labels and id_ not in self._labels,
                    rank_before=ranks_before.get(hit.docid),
                    similarity=None if vector is None else float(vector @ self._queries[-1]),
                    similarity_before=None if vector is None or before is None else float(vector @ before),
                )
            )
        docids = {candidate.docid for candidate in candidates}
        message = Round(
            number=len(self.messages),
            t=found.updates,
            candidates=candidates,
            new=[one.docid for one in candidates if self.messages and one.docid not in ranks_before],
            gone=[docid for docid in ranks_before if docid not in docids],
            cosine=_cosine(self._queries[0], self._queries[-1]),
            stop=found.stop,
            map=self._map(found),
            costs=costs,
        )
        self._labels = found.labels
        self.messages.append(message)
        return message

    def _fetch(self, ids: Sequence[int]) -> None:
        fresh = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._vectors]
        if fresh and self._vectors_of is not None:
            vectors = self._vectors_of(np.array(fresh, dtype=np.int64))
            self._vectors |= dict(zip(fresh, vectors.astype(np.float64), strict=True))

    def _map(self, found: SearchRound) -> Map | None:
        ids = [id_ for id_ in dict.fromkeys([*found.ids.tolist(), *found.labels]) if id_ in self._vectors]
        if not ids:
            return None
        points = projected(np.stack(self._queries), np.stack([self._vectors[id_] for id_ in ids]))
        queries, candidates = (np.round(part, 6).tolist() for part in points)
        return Map(queries=queries, candidates=dict(zip((self._docids[id_] for id_ in ids), candidates, strict=True)))


def shown_hit(hit: Any, rank: int, passage: str) -> dict[str, Any]:
    """What every candidate of a message has: docid, score, rank, title and first words."""
    title, text = title_and_text(passage)
    return {
        "docid": hit.docid,
        "score": float(hit.score),
        "rank": rank,
        "title": title,
        "words": first_words(text, WORDS),
    }


def title_and_text(passage: str) -> tuple[str, str]:
    """The two parts of a passage; a plain string has no title."""
    return passage.parts if isinstance(passage, Passage) else ("", passage)


def _cosine(first: Floats, now: Floats) -> float | None:
    norms = float(np.linalg.norm(first) * np.linalg.norm(now))
    return float(first @ now / norms) if norms else None
