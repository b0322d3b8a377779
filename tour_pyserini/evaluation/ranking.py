"""A run's documents in the order in which they are evaluated."""

import os
from collections.abc import Iterable, Set
from ctypes import c_float
from typing import TYPE_CHECKING

from tour_pyserini.evaluation.files import read_run

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


def best_first(hits: Iterable["ScoredDoc"]) -> list["ScoredDoc"]:
    """The hits of one query as trec_eval and ir-measures rank them.

    Scores decide, in single precision, and not the written ranks; of equal scores the larger docid comes first.
    """
    return sorted(hits, key=strength, reverse=True)


def read_rankings(path: str | os.PathLike[str], queries: Set[str]) -> dict[str, list[str]]:
    """The docids of some queries of a run, best first; a query that the run does not answer has an empty list."""
    found: dict[str, list[ScoredDoc]] = {query: [] for query in queries}
    for hit in read_run(path):
        if hit.query_id in found:
            found[hit.query_id].append(hit)
    return {query: [hit.doc_id for hit in best_first(hits)] for query, hits in found.items()}


def strength(hit: "ScoredDoc") -> tuple[float, str]:
    """What hits of one query are sorted by, the larger first: the score in single precision, then the docid."""
    return c_float(hit.score).value, hit.doc_id
