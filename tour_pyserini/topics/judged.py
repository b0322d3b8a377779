"""The queries of one split."""

import copy
import os
from collections.abc import Set
from typing import TYPE_CHECKING

from tour_pyserini.errors import TourError

if TYPE_CHECKING:
    from pyserini.query_iterator import QueryIterator


def judged_only(
    iterator: "QueryIterator", judged: Set[str], *, source: str | os.PathLike[str] = "the judgements"
) -> "QueryIterator":
    """Only the topics that are judged; BEIR's queries.jsonl holds those of all splits.

    Args:
        iterator: topics, left as they are.
        judged: ids of judged topics.
        source: where they come from, for an error.
    """
    kept = copy.copy(iterator)
    kept.topics = {qid: topic for qid, topic in iterator.topics.items() if str(qid) in judged}
    kept.order = [qid for qid in iterator.order if qid in kept.topics]
    if not kept.topics:
        raise TourError(f"{source} judges none of the {len(iterator)} topics; check that both belong together.")
    return kept
