"""From topics to a run file."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.calibration import ENOUGH
from tour_pyserini.core.candidates import Floats
from tour_pyserini.core.ranking import strictly_decreasing
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import replaced_whole
from tour_pyserini.support.java import ensure_java


class Batch(NamedTuple):
    """Some topics and what was found for them: ids [n], queries [n], their final vectors [n, d], hits by id."""

    ids: Sequence[Any]
    queries: Sequence[Any]
    vectors: Floats
    hits: dict[str, list[Any]]


def search_topics(
    searcher: Any, topics: Iterable[tuple[Any, Any]], *, hits: int, batch_size: int, threads: int
) -> Iterator[Batch]:
    """Search the topics in their order, `batch_size` of them together."""
    if batch_size < 1:
        raise TourError(f"--batch-size must be at least 1, not {batch_size}.")
    try:
        waiting = list(topics)
    except KeyError as error:
        raise TourError(f"the topics have no field {error}; choose another --topics-format.") from error
    # Settings that are found on the first queries are found on the same ones whatever the size of a batch.
    first = max(batch_size, ENOUGH if searcher.config.calibrates else 0)
    starts = [0, *range(first, len(waiting), batch_size)] if waiting else []
    for start, end in itertools.pairwise([*starts, len(waiting)]):
        ids, queries = zip(*waiting[start:end], strict=True)
        yield _searched(searcher, ids, queries, hits, threads)


def _searched(searcher: Any, ids: Sequence[Any], queries: Sequence[Any], hits: int, threads: int) -> Batch:
    names = [str(id_) for id_ in ids]
    vectors, found = searcher.batch_run(list(queries), names, k=hits, threads=threads)
    return Batch(ids, queries, vectors, found)


def write_run(
    batches: Iterable[Batch],
    output: str | os.PathLike[str],
    *,
    output_format: str = "trec",
    hits: int = 1000,
    tag: str = "Tour",
    topics: dict[Any, Any] | None = None,
) -> None:
    """Write a run with Pyserini's writers; scores are strictly decreasing, and the file appears whole or not at all."""
    ensure_java()
    from pyserini.output_writer import OutputFormat, get_output_writer

    with replaced_whole(output) as partial:
        writer = get_output_writer(
            str(partial), OutputFormat(output_format), "w", max_hits=hits, tag=tag, topics=topics
        )
        with writer:
            for batch in batches:
                for id_ in batch.ids:
                    writer.write(id_, _separated(batch.hits[str(id_)]))


def _separated(hits: list[Any]) -> list[Any]:
    scores = strictly_decreasing(np.array([hit.score for hit in hits]))
    for hit, score in zip(hits, scores.tolist(), strict=True):
        hit.score = score
    return hits
