"""Run files: read them, order their hits as evaluators do, and write them."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from ctypes import c_float
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tour_pyserini.core.arrays import strictly_decreasing
from tour_pyserini.data.lines import Line, read_lines
from tour_pyserini.data.run_formats import RUN_FORMATS
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

_DECIMALS = 6  # of a score in a run file


class SearchedTopics(Protocol):
    """Topics and their hits, as `write_run` needs them, such as a `pipeline.batches.Batch`."""

    @property
    def ids(self) -> Sequence[Any]:
        """Topic ids, in the order in which they are written."""

    @property
    def hits(self) -> Mapping[str, list[Any]]:
        """The hits of each topic, by its id as a string."""


def read_run(path: str | os.PathLike[str]) -> list["ScoredDoc"]:
    """Read a TREC run: `qid Q0 docid rank score tag`."""
    hits = list(_read_hits(path))
    if not hits:
        raise TourError(f"{path} holds no hits.")
    return hits


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
    batches: Iterable[SearchedTopics],
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
        batches: topics and their hits.
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


def _read_hits(path: str | os.PathLike[str]) -> Iterator["ScoredDoc"]:
    from ir_measures import ScoredDoc

    seen = set()
    for line in read_lines(path):
        columns = line.text.split()
        if len(columns) != 6:
            line.refuse("is not a hit: expected `qid Q0 docid rank score tag`")
        query, document, score = columns[0], columns[2], _score(line, columns[4])
        if (query, document) in seen:
            line.refuse(f"lists document {document!r} for query {query!r} a second time")
        seen.add((query, document))
        yield ScoredDoc(query, document, score)


def _score(line: Line, text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        line.refuse(f"has the score {text!r}, which is not a number")
    return score


def _with_distinct_scores(hits: list[Any]) -> list[Any]:
    scores = strictly_decreasing(np.array([hit.score for hit in hits]))
    for hit, score in zip(hits, scores.tolist(), strict=True):
        hit.score = score
    return hits
