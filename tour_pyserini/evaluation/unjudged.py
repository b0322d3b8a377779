"""Runs whose hits were not judged when judgements were made from other runs."""

import logging
import os
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING

from tour_pyserini.evaluation.answer_qrels import NO_PASSAGE
from tour_pyserini.evaluation.ranking import strength

if TYPE_CHECKING:
    from ir_measures import Qrel, ScoredDoc

log = logging.getLogger(__name__)

# Of each judged query, and the share of unjudged hits from which a comparison is not fair.
DEPTH, SHARE = 20, 0.1


class Unjudged:
    """Warns of runs with many unjudged hits beside a first run that has none.

    It says nothing of judgements without grades of 0, where a document that is not listed is simply not relevant.
    """

    def __init__(self, qrels: Iterable["Qrel"]) -> None:
        self._judged: dict[str, set[str]] = {}
        explicit = False
        for qrel in qrels:
            self._judged.setdefault(qrel.query_id, set()).add(qrel.doc_id)
            explicit = explicit or (qrel.relevance == 0 and qrel.doc_id != NO_PASSAGE)
        self._watches, self._first = explicit, True

    def check(self, run: Sequence["ScoredDoc"], path: str | os.PathLike[str]) -> None:
        """Warn of this run; the first run ever given decides whether others are looked at."""
        if not self._watches:
            return
        share = self._share(run)
        if self._first:
            self._first, self._watches = False, share == 0
        elif share > SHARE:
            log.warning(
                "%.0f %% of the first %d hits of %s are not judged and count as not relevant, while the first run has "
                "none; make the judgements from all runs that are compared",
                *(100 * share, DEPTH, path),
            )

    def _share(self, run: Sequence["ScoredDoc"]) -> float:
        found: dict[str, list[ScoredDoc]] = {}
        for hit in run:
            if hit.query_id in self._judged:
                found.setdefault(hit.query_id, []).append(hit)
        first = [hit for hits in found.values() for hit in nlargest(DEPTH, hits, key=strength)]
        return sum(hit.doc_id not in self._judged[hit.query_id] for hit in first) / max(len(first), 1)
