"""Search topics in batches."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tour_pyserini.core.arrays import Floats
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
        searcher: a `TourSearcher`, or anything with its `batch_run`.
        topics: (id, query) pairs.
        hits: length of each result list.
        batch_size: topics per batch.
        threads: threads of the index search.
    """
    for ids, queries in topic_batches(topics, batch_size):
        yield searched(searcher, ids, queries, hits=hits, threads=threads)


def topic_batches(
    topics: Iterable[tuple[Any, Any]], batch_size: int
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The ids and queries of each batch of topics, in their order."""
    if batch_size < 1:
        raise TourError(f"--batch-size must be at least 1, not {batch_size}.")
    try:
        pairs = list(topics)
    except KeyError as error:
        raise TourError(f"the topics have no field {error}; choose another --topics-format.") from error
    starts = range(0, len(pairs), batch_size)
    for start, end in itertools.pairwise([*starts, len(pairs)]):
        ids, queries = zip(*pairs[start:end], strict=True)
        yield ids, queries


def searched(searcher: Any, ids: Sequence[Any], queries: Sequence[Any], *, hits: int, threads: int) -> Batch:
    """Search one batch; the arguments are those of `search_topics`."""
    vectors, hits_by_id = searcher.batch_run(list(queries), [str(qid) for qid in ids], k=hits, threads=threads)
    return Batch(ids, queries, vectors, hits_by_id)


def told_by_index(searcher: Any) -> dict[str, Any]:
    """What the searched index told, for the record: the order of its hits, and what a vector database is."""
    describe = getattr(searcher.searcher.index, "description", None)
    return {"order": searcher.order, **({"store": describe()} if describe else {})}
