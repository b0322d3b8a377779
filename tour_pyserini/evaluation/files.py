"""Judgements and runs from files, with errors that name the line."""

import math
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tour_pyserini.errors import TourError
from tour_pyserini.files import written_whole
from tour_pyserini.topics.lines import Line, read_lines

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
