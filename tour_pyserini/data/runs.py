"""Run files: reading, ordering and writing them."""

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from ctypes import c_float
from itertools import pairwise
from typing import TYPE_CHECKING

from tour_pyserini.data.lines import Line, read_lines
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import written_whole

if TYPE_CHECKING:
    from ir_measures import Qrel, ScoredDoc

_WHOLE = re.compile(r"-?[0-9]+")
_LARGEST = 2**31  # evaluators keep grades in 32 bits


def read_qrels(path: str | os.PathLike[str]) -> list["Qrel"]:
    """Read judgements: TREC's `qid 0 docid grade`, or BEIR's `query-id corpus-id score` below a header."""
    from ir_measures import Qrel

    result, seen, width = [], set(), None
    for line in read_lines(path):
        columns = line.text.split()
        if line.number == 1 and columns[0] == "query-id":
            continue
        # One width per file: a TREC line without its grade would otherwise read as BEIR's.
        width = width or len(columns)
        if len(columns) != width or width not in (3, 4):
            line.refuse("is not a judgement: expected `qid 0 docid grade`, or BEIR's three columns")
        query, document, grade = columns[0], columns[-2], columns[-1]
        if not _WHOLE.fullmatch(grade):
            line.refuse(f"has the grade {grade!r}, which is not a whole number")
        # Python itself refuses to read numbers of thousands of digits.
        if len(grade) > 11 or not -_LARGEST <= int(grade) < _LARGEST:
            line.refuse(f"has the grade {grade:.20}, which does not fit 32 bits")
        if (query, document) in seen:
            line.refuse(f"judges document {document!r} for query {query!r} a second time")
        seen.add((query, document))
        result.append(Qrel(query, document, int(grade)))
    if not result:
        raise TourError(f"{path} holds no judgements.")
    return result


def write_qrels(qrels: list["Qrel"], path: str | os.PathLike[str]) -> None:
    """Write judgements as TREC has them."""
    with written_whole(path) as file:
        file.writelines(f"{qrel.query_id} 0 {qrel.doc_id} {qrel.relevance}\n" for qrel in qrels)


def read_run(path: str | os.PathLike[str]) -> list["ScoredDoc"]:
    """Read a TREC run: `qid Q0 docid rank score tag`."""
    result = list(_scored(path))
    if not result:
        raise TourError(f"{path} holds no hits.")
    return result


def _scored(path: str | os.PathLike[str]) -> Iterator["ScoredDoc"]:
    from ir_measures import ScoredDoc

    seen = set()
    for line in read_lines(path):
        columns = line.text.split()
        if len(columns) != 6:
            line.refuse("is not a hit: expected `qid Q0 docid rank score tag`")
        query, document, score = columns[0], columns[2], _number(line, columns[4])
        if (query, document) in seen:
            line.refuse(f"lists document {document!r} for query {query!r} a second time")
        seen.add((query, document))
        yield ScoredDoc(query, document, score)


def _number(line: Line, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        line.refuse(f"has the score {text!r}, which is not a number")
    return value


# What run files and evaluators tell apart: six decimals, in single precision.
_DECIMALS = 6


def says_its_order(scores: Sequence[float]) -> bool:
    """Whether each score is below the one before it, to six decimals and in single precision."""
    kept = [c_float(round(score, _DECIMALS)).value for score in scores]
    return all(first > second for first, second in pairwise(kept))


def by_rank(count: int) -> list[float]:
    """Scores that say no more than an order: count, ..., 2, 1."""
    return [float(count - position) for position in range(count)]


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
