"""Search topics in batches."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tour_pyserini.core.candidates import Floats
from tour_pyserini.errors import TourError


class Batch(NamedTuple):
    """Some topics and their results: ids [n], queries [n], final query vectors [n, d], hits by topic id."""

    ids: Sequence[Any]
    queries: Sequence[Any]
    vectors: Floats
    hits: dict[str, list[Any]]


def search_topics(
    searcher: Any, topics: Iterable[tuple[Any, Any]], *, hits: int, batch_size: int, threads: int
) -> Iterator[Batch]:
    """Search the topics in their order, `batch_size` at a time.

    Args:
        searcher: a `TourSearcher`, or anything with its `share_labels` and `batch_run`.
        topics: (id, query) pairs.
        hits: length of each result list.
        batch_size: topics per batch.
        threads: threads of the index search.
    """
    if batch_size < 1:
        raise TourError(f"--batch-size must be at least 1, not {batch_size}.")
    try:
        pairs = list(topics)
    except KeyError as error:
        raise TourError(f"the topics have no field {error}; choose another --topics-format.") from error
    ids, queries = [str(id_) for id_, _ in pairs], [query for _, query in pairs]
    shared = searcher.share_labels(queries, ids, hits, threads, batch_size=batch_size)
    starts = range(0, len(pairs), batch_size)
    for start, end in itertools.pairwise([*starts, len(pairs)]):
        part = slice(start, end)
        vectors, found = searcher.batch_run(queries[part], ids[part], k=hits, threads=threads, shared=shared)
        yield Batch([id_ for id_, _ in pairs[part]], queries[part], vectors, found)
