"""From searches to messages: answers, and the lists on the way to them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.data.documents import Passage
from tour_pyserini.errors import RequestError
from tour_pyserini.evaluation.path_map import projected
from tour_pyserini.evaluation.query_path import first_words
from tour_pyserini.searchers.searcher import SearchRound, TourSearcher
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.jobs import SearchJob
from tour_pyserini.service.messages import Answer, Candidate, Costs, Map, QueryInfo, Round, Settings

WORDS = 160
"""Characters of a passage's first words."""


class Answers:
    """Makes the messages of searches.

    Args:
        collection: what is searched.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def settings(self, job: SearchJob) -> Settings:
        """How a search is made."""
        config = job.config
        return Settings(
            method=config.method,
            settings={
                name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
                for name, value in config.values().items()
            },
            most_labels=config.most_labels,
            hits=job.hits,
            deadline_ms=job.deadline_ms,
            index=self._collection.name,
            documents=self._collection.size,
            reranker=self._collection.reranker_name if config.most_labels else None,
        )

    def answer(self, job: SearchJob, searcher: TourSearcher) -> Answer:
        """The answer of a search that has ended.

        Raises:
            RequestError: if its settings made scores that are no numbers.
        """
        assert job.task is not None and job.task.outcome is not None
        outcome, labels = job.task.outcome, job.task.labels
        ids, scores = outcome.ranking.first(job.hits)
        if not np.isfinite(scores).all():
            raise RequestError("with these settings, a score is not a finite number; choose smaller ones.")
        candidates = []
        for rank, (hit, id_) in enumerate(zip(searcher.hits(outcome, job.hits), ids.tolist(), strict=True), start=1):
            text = self._collection.text(hit.docid)
            candidates.append(Candidate(**shown_hit(hit, rank, text), document_txt=str(text), label=labels.get(id_)))
        return Answer(
            query=QueryInfo(qid=job.qid, query_txt=job.query),
            candidates=candidates,
            stop=outcome.stop,
            settings=self.settings(job),
            costs=job.costs(job.task.updates),
            rounds=job.lists if job.rounds else None,
        )

    def round(self, job: SearchJob, found: SearchRound, searcher: TourSearcher) -> Round:
        """The message of the next list of a search."""
        if job.messages is None:
            job.messages = RoundMessages(
                searcher.searcher.docids, self._collection.text, None if searcher.encodes_passages else searcher.fetch
            )
        return job.messages.message(found, job.costs(found.updates))


class RoundMessages:
    """Makes the message of each list of one search, in their order.

    Args:
        docids: the docid of each position of the index.
        text: the passage of a document.
        vectors: vectors [m, d] of positions [m]; None if passages would have to be encoded for it.
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
        self._ranks: dict[str, int] = {}
        self._labels: dict[int, float] = {}
        self._number = 0

    def message(self, found: SearchRound, costs: Costs) -> Round:
        """The message of the next list."""
        before = self._queries[-1] if self._queries else None
        if len(self._queries) <= found.updates:
            self._queries.append(found.vector.astype(np.float64))
        self._fetch([*found.ids.tolist(), *found.labels])
        candidates = [
            self._candidate(rank, hit, id_, found, before)
            for rank, (hit, id_) in enumerate(zip(found.hits, found.ids.tolist(), strict=True), start=1)
        ]
        ranks = {candidate.docid: candidate.rank for candidate in candidates}
        message = Round(
            number=self._number,
            t=found.updates,
            candidates=candidates,
            new=[docid for docid in ranks if self._number and docid not in self._ranks],
            gone=[docid for docid in self._ranks if docid not in ranks],
            cosine=_cosine(self._queries[0], self._queries[-1]),
            stop=found.stop,
            map=self._map(found),
            costs=costs,
        )
        self._ranks, self._labels, self._number = ranks, found.labels, self._number + 1
        return message

    def _candidate(self, rank: int, hit: Any, id_: int, found: SearchRound, before: Floats | None) -> Candidate:
        vector = self._vectors.get(id_)
        return Candidate(
            **shown_hit(hit, rank, self._text(hit.docid)),
            label=found.labels.get(id_),
            bought=id_ in found.labels and id_ not in self._labels,
            rank_before=self._ranks.get(hit.docid),
            similarity=None if vector is None else float(vector @ self._queries[-1]),
            similarity_before=None if vector is None or before is None else float(vector @ before),
        )

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
