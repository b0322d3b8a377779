"""A run's documents in the order in which they are evaluated."""

import os
from collections.abc import Set

from tour_pyserini.evaluation.files import read_run


def read_rankings(path: str | os.PathLike[str], queries: Set[str]) -> dict[str, list[str]]:
    """The docids of some queries of a run, best first.

    As in trec_eval, scores decide and not the written ranks; of equal scores the larger docid comes first. A query
    that the run does not answer has an empty list.
    """
    scored: dict[str, list[tuple[float, str]]] = {query: [] for query in queries}
    for hit in read_run(path):
        if hit.query_id in scored:
            scored[hit.query_id].append((hit.score, hit.doc_id))
    return {query: [docid for _, docid in sorted(hits, reverse=True)] for query, hits in scored.items()}
