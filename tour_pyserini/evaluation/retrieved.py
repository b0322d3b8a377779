"""What a run retrieved for each question."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.files import read_run
from tour_pyserini.evaluation.ranking import best_first

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


def read_retrieved(
    path: str | os.PathLike[str], questions: Iterable[str], *, hits: int | None = None
) -> dict[str, list["ScoredDoc"]]:
    """Read a TREC run.

    Args:
        path: the run.
        questions: ids of all questions; the run may have no other.
        hits: how many of each question are kept; all if None.

    Returns:
        The hits of every question, in the order of the questions, best first as they are evaluated; a question without
        hits has none.
    """
    if hits is not None and hits < 1:
        raise TourError(f"at least 1 hit must be kept, not {hits}.")
    found: dict[str, list[ScoredDoc]] = {question: [] for question in questions}
    for hit in read_run(path):
        if hit.query_id not in found:
            raise TourError(f"{path} has hits for {hit.query_id!r}, which is not in the topics; give the run's topics.")
        found[hit.query_id].append(hit)
    return {question: best_first(each)[:hits] for question, each in found.items()}
