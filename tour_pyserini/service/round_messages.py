"""The lists of a search as messages: what moved from one to the next, and where the query is among its candidates."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.data.documents import Passage
from tour_pyserini.evaluation.path_map import projected
from tour_pyserini.evaluation.query_path import first_words
from tour_pyserini.searchers.tour_engine import SearchRound
from tour_pyserini.service.messages import Candidate, Costs, Map, Round

WORDS = 160
"""Characters of a passage's first words."""


class RoundMessages:
    """Makes the message of each list of one search, in their order.

    Args:
        docids: the docid of each position of the index.
        text: the passage of a document.
        vectors: vectors [m, d] of positions [m]; None if they are not known.
    """

    def __init__(
        self,
        docids: Sequence[str],
        text: Callable[[str], str],
        vectors: Callable[[Ids], Floats | None],
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
        if len(self._queries) <= found.t:
            self._queries.append(found.query.astype(np.float64))
        self._fetch([*found.ids.tolist(), *found.labels])
        candidates = [
            self._candidate(rank, hit, id_, found, before)
            for rank, (hit, id_) in enumerate(zip(found.hits, found.ids.tolist(), strict=True), start=1)
        ]
        ranks = {candidate.docid: candidate.rank for candidate in candidates}
        message = Round(
            number=self._number,
            t=found.t,
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
        vectors = self._vectors_of(np.array(fresh, dtype=np.int64)) if fresh else None
        if vectors is not None:
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
