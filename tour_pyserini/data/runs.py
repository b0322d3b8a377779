"""Run files: read them, order their hits as evaluators do, and write them in several formats."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from ctypes import c_float
from itertools import pairwise
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from tour_pyserini.core.arrays import strictly_decreasing
from tour_pyserini.data.input_files import Line, read_lines
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace
from tour_pyserini.support.java import ensure_java

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

_DECIMALS = 6  # of a score in a run file


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
        query, document, score = columns[0], columns[2], _score(line, columns[4])
        if (query, document) in seen:
            line.refuse(f"lists document {document!r} for query {query!r} a second time")
        seen.add((query, document))
        hits.append(ScoredDoc(query, document, score))
    if not hits:
        raise TourError(f"{path} holds no hits.")
    return hits


def _score(line: Line, text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        line.refuse(f"has the score {text!r}, which is not a number")
    return score


def read_rankings(path: str | os.PathLike[str], queries: Set[str]) -> dict[str, list[str]]:
    """Read the docids of some queries of a run, best first; a query without hits has an empty list."""
    by_query: dict[str, list[ScoredDoc]] = {query: [] for query in queries}
    for hit in read_run(path):
        if hit.query_id in by_query:
            by_query[hit.query_id].append(hit)
    return {query: [hit.doc_id for hit in best_first(hits)] for query, hits in by_query.items()}


def read_retrieved(
    path: str | os.PathLike[str], questions: Iterable[str], *, hits: int | None = None
) -> dict[str, list["ScoredDoc"]]:
    """Read the hits of all questions of a run, best first.

    Args:
        path: the run.
        questions: ids of all questions; the run must not contain any other.
        hits: most hits kept per question; None keeps all.

    Returns:
        Hits by question id, in the order of `questions`; a question without hits has an empty list.
    """
    if hits is not None and hits < 1:
        raise TourError(f"at least 1 hit must be kept, not {hits}.")
    by_question: dict[str, list[ScoredDoc]] = {question: [] for question in questions}
    for hit in read_run(path):
        if hit.query_id not in by_question:
            raise TourError(f"{path} has hits for {hit.query_id!r}, which is not in the topics; give the run's topics.")
        by_question[hit.query_id].append(hit)
    return {question: best_first(retrieved)[:hits] for question, retrieved in by_question.items()}


def best_first(hits: Iterable["ScoredDoc"]) -> list["ScoredDoc"]:
    """Sort the hits of one query as trec_eval and ir-measures do.

    They sort by score in single precision and ignore the written ranks; of equal scores the larger docid comes first.
    """
    return sorted(hits, key=ranking_key, reverse=True)


def ranking_key(hit: "ScoredDoc") -> tuple[float, str]:
    """The sort key of a hit, largest first: the score in single precision, then the docid."""
    return c_float(hit.score).value, hit.doc_id


def is_strictly_decreasing(scores: Sequence[float]) -> bool:
    """Whether each score is below the one before it, to six decimals and in single precision.

    Evaluators see no smaller differences, so only such scores keep their order in a run file.
    """
    rounded = [c_float(round(score, _DECIMALS)).value for score in scores]
    return all(first > second for first, second in pairwise(rounded))


def scores_by_rank(count: int) -> list[float]:
    """Scores that only express an order: count, ..., 2, 1."""
    return [float(count - position) for position in range(count)]


def write_run(
    batches: Iterable[Any],
    output: str | os.PathLike[str],
    *,
    output_format: str = "trec",
    hits: int = 1000,
    tag: str = "Tour",
    topics: dict[Any, Any] | None = None,
) -> None:
    """Write a run, one batch after the other.

    Scores are made strictly decreasing. If anything fails, no file is written and an old file stays as it was.

    Args:
        batches: each has `ids` of topics, in the order in which they are written, and `hits` of each by `str(id)`.
        output: the run file.
        output_format: the name of a format in `RUN_FORMATS`.
        hits: most hits per topic.
        tag: the run's tag.
        topics: the topics by id, which some formats need.

    Raises:
        TourError: if the format is unknown.
    """
    if output_format not in RUN_FORMATS:
        raise TourError(f"the run format {output_format!r} is unknown: choose one of {', '.join(RUN_FORMATS)}.")
    with atomic_replace(output) as partial:
        writer = RUN_FORMATS[output_format](str(partial), hits=hits, tag=tag, topics=topics)
        with writer:
            for batch in batches:
                for qid in batch.ids:
                    writer.write(qid, _with_distinct_scores(batch.hits[str(qid)]))


def _with_distinct_scores(hits: list[Any]) -> list[Any]:
    scores = strictly_decreasing(np.array([hit.score for hit in hits]))
    for hit, score in zip(hits, scores.tolist(), strict=True):
        hit.score = score
    return hits


class RunWriter(Protocol):
    """Writes the hits of one topic after the other; a context manager that closes its file."""

    def __enter__(self) -> Any:
        """Open the file."""
        ...

    def __exit__(self, *error: Any) -> Any:
        """Close the file."""
        ...

    def write(self, topic: Any, hits: list[Any]) -> Any:
        """Write the hits of a topic, given by its id; hits have `docid` and `score` and are in order."""
        ...


OpenWriter = Callable[..., RunWriter]
"""Called as `open_writer(path, hits=..., tag=..., topics=...)`: the path as text, the most hits per topic, the run's
tag, and the topics by id (None if unknown)."""


class TextWriter:
    """Opens and closes the file, and numbers the hits of a topic; a format of lines adds `write`."""

    _file: IO[str]

    def __init__(self, path: str | os.PathLike[str], *, hits: int, tag: str, topics: Mapping[Any, Any] | None) -> None:
        self._path, self._hits, self._tag = path, hits, tag

    def __enter__(self) -> Self:
        self._file = open(self._path, "w", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _ranked(self, hits: Sequence[Any]) -> Iterator[tuple[int, str, float]]:
        """Rank, docid and score of the hits that are written."""
        return ((rank, hit.docid.strip(), hit.score) for rank, hit in enumerate(hits[: self._hits], start=1))


class TrecWriter(TextWriter):
    """Writes lines `topic Q0 docid rank score tag`."""

    def write(self, topic: Any, hits: Sequence[Any]) -> None:
        """Write the hits of a topic, best first."""
        for rank, docid, score in self._ranked(hits):
            self._file.write(f"{topic} Q0 {docid} {rank} {score:.6f} {self._tag}\n")


class MsMarcoWriter(TextWriter):
    """Writes lines `topic docid rank`, separated by tabs."""

    def write(self, topic: Any, hits: Sequence[Any]) -> None:
        """Write the hits of a topic, best first."""
        for rank, docid, _ in self._ranked(hits):
            self._file.write(f"{topic}\t{docid}\t{rank}\n")


def kilt_writer(path: str | os.PathLike[str], *, hits: int, tag: str, topics: Mapping[Any, Any] | None) -> Any:
    """Pyserini's writer, which adds the hits to KILT's topics."""
    ensure_java()
    from pyserini.output_writer import OutputFormat, get_output_writer

    return get_output_writer(str(path), OutputFormat.KILT, "w", max_hits=hits, tag=tag, topics=topics)


_formats: dict[str, OpenWriter] = {
    "trec": TrecWriter,
    "msmarco": MsMarcoWriter,
    "kilt": kilt_writer,
}
# To add a format, write a writer (a subclass of `TextWriter`, if the format has lines) and add a line above.

JOINABLE = ("trec", "msmarco", "kilt")
"""Formats in which the file of all topics is the files of some topics, one after the other."""

RUN_FORMATS: Mapping[str, OpenWriter] = MappingProxyType(_formats)
"""The function that opens a writer, by the name of the format; `--output-format` has these names."""


def register_run_format(name: str, open_writer: OpenWriter) -> None:
    r"""Add a format of run files, which `write_run`, `SearchRequest` and `--output-format` then know by its name.

    Args:
        name: one word.
        open_writer: called as `open_writer(path, hits=..., tag=..., topics=...)`; returns a `RunWriter`.

    Raises:
        TourError: if the name is not one word or already in use, or `open_writer` is not callable.

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
    if not isinstance(name, str) or name.split() != [name]:
        raise TourError(f"{name!r} cannot name a run format; use one word.")
    if name in _formats:
        raise TourError(f"the run format {name!r} is already registered; choose another name.")
    if not callable(open_writer):
        raise TourError(f"the run format {name!r} needs a function that opens a writer, not {open_writer!r}.")
    _formats[name] = open_writer
