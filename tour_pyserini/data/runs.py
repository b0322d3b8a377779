"""Run files: read them, order their hits as evaluators do, and write them in several formats."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import c_float
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tour_pyserini.core.arrays import strictly_decreasing
from tour_pyserini.data.input_files import read_lines
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace, writing_to
from tour_pyserini.support.pyserini import ensure_java

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


def read_run(path: str | os.PathLike[str]) -> list["ScoredDoc"]:
    """Read a TREC run: `qid Q0 docid rank score tag`.

    Lines that begin with `#` are comments, and what follows the tag is ignored, as for trec_eval.
    """
    from ir_measures import ScoredDoc

    hits, seen = [], set()
    for line in read_lines(path, comments=True):
        columns = line.text.split()
        if len(columns) < 6:
            line.refuse("is not a hit: expected `qid Q0 docid rank score tag`")
        query, document = columns[0], columns[2]
        if (query, document) in seen:
            line.refuse(f"lists document {document!r} for query {query!r} a second time")
        seen.add((query, document))
        hits.append(ScoredDoc(query, document, line.number(columns[4], "score")))
    if not hits:
        raise TourError(f"{path} holds no hits.")
    return hits


def read_rankings(
    path: str | os.PathLike[str], queries: Iterable[str] | None = None, *, hits: int | None = None
) -> dict[str, list["ScoredDoc"]]:
    """Read the hits of each query of a run, best first.

    Args:
        path: the run.
        queries: ids of all queries, in whose order they are returned; a query without hits has an empty list, and the
            run must not contain any other. None: those of the run.
        hits: most hits kept per query; None keeps all.
    """
    by_query: dict[str, list[ScoredDoc]] = {query: [] for query in queries or ()}
    for hit in read_run(path):
        if queries is not None and hit.query_id not in by_query:
            raise TourError(f"{path} has hits for {hit.query_id!r}, which is not in the topics; give the run's topics.")
        by_query.setdefault(hit.query_id, []).append(hit)
    return {query: best_first(retrieved)[:hits] for query, retrieved in by_query.items()}


def best_first(hits: Iterable["ScoredDoc"]) -> list["ScoredDoc"]:
    """Sort the hits of one query as trec_eval and ir-measures do.

    They sort by score in single precision and ignore the written ranks; of equal scores the larger docid comes first.
    """
    return sorted(hits, key=lambda hit: (c_float(hit.score).value, hit.doc_id), reverse=True)


@contextlib.contextmanager
def open_run(
    output: str | os.PathLike[str],
    *,
    output_format: str = "trec",
    hits: int = 1000,
    tag: str = "Tour",
    topics: dict[Any, Any] | None = None,
    finish: Callable[[Path], None] | None = None,
) -> Iterator[Callable[[Any, list[Any]], None]]:
    """Write a run: the block is given a function that writes the hits of a topic, `write(id, hits)`.

    Scores are made strictly decreasing. If anything fails, no file is written and an old file stays as it was.

    Args:
        output: the run file.
        output_format: the name of a format in `RUN_FORMATS`.
        hits: most hits per topic.
        tag: the run's tag.
        topics: the topics by id, which some formats need.
        finish: called with the temporary that holds the whole run, before it becomes `output`.
    """
    with atomic_replace(output) as part:
        with RUN_FORMATS[output_format](str(part), hits=hits, tag=tag, topics=topics) as writer:

            def write(qid: Any, found: list[Any]) -> None:
                with writing_to(Path(output)):
                    writer.write(qid, _with_distinct_scores(found))

            yield write
        if finish:
            finish(part)


def _with_distinct_scores(hits: list[Any]) -> list[Any]:
    scores = strictly_decreasing(np.array([hit.score for hit in hits]))
    for hit, score in zip(hits, scores.tolist(), strict=True):
        hit.score = score
    return hits


@contextlib.contextmanager
def _line_writer(path: str, *, hits: int, tag: str, topics: Mapping[Any, Any] | None, line: str) -> Iterator[Any]:
    """Writes a line for each hit, as Pyserini's own writers do."""
    with open(path, "w", encoding="utf-8") as file:

        def write(topic: Any, found: Sequence[Any]) -> None:
            for rank, hit in enumerate(found[:hits], start=1):
                values = {"docid": hit.docid.strip(), "rank": rank, "score": hit.score, "tag": tag}
                file.write(line.format(topic=topic, **values))

        yield SimpleNamespace(write=write)


def _kilt_writer(path: str, *, hits: int, tag: str, topics: Mapping[Any, Any] | None) -> Any:
    """Pyserini's writer, which adds the hits to KILT's topics."""
    ensure_java()
    from pyserini.output_writer import OutputFormat, get_output_writer

    return get_output_writer(path, OutputFormat.KILT, "w", max_hits=hits, tag=tag, topics=topics)


OpenWriter = Callable[..., Any]
"""Called as `open_writer(path, hits=..., tag=..., topics=...)`: the path as text, the most hits per topic, the run's
tag, and the topics by id (None if unknown). Gives a context manager with `write(topic, hits)`: the id of a topic, and
its hits in order, which have `docid` and `score`."""

_formats: dict[str, OpenWriter] = {
    "trec": partial(_line_writer, line="{topic} Q0 {docid} {rank} {score:.6f} {tag}\n"),
    "msmarco": partial(_line_writer, line="{topic}\t{docid}\t{rank}\n"),
    "kilt": _kilt_writer,
}

JOINABLE = ("trec", "msmarco", "kilt")
"""Formats in which the file of all topics is the files of some topics, one after the other."""

RUN_FORMATS: Mapping[str, OpenWriter] = MappingProxyType(_formats)
"""The function that opens a writer, by the name of the format; `--output-format` has these names."""


def register_run_format(name: str, open_writer: OpenWriter) -> None:
    r"""Add a format of run files, which `open_run`, `SearchRequest` and `--output-format` then know by its name.

    Args:
        name: one word.
        open_writer: see `OpenWriter`.

    Raises:
        TourError: if the name is not one word or already in use.

    Example:
        class CsvWriter:
            def __init__(self, path, *, hits, tag, topics):
                self.path, self.hits = path, hits

            def __enter__(self):
                self.file = open(self.path, "w")
                return self

            def __exit__(self, *error):
                self.file.close()

            def write(self, topic, hits):
                for rank, hit in enumerate(hits[: self.hits], start=1):
                    self.file.write(f"{topic},{hit.docid},{rank},{hit.score}\n")

        register_run_format("my-csv", CsvWriter)
    """
    if name.split() != [name] or name in _formats:
        raise TourError(f"{name!r} cannot name a run format: give one word that is not registered already.")
    _formats[name] = open_writer
