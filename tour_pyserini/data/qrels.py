"""Read and write judgements (qrels files)."""

import os
import re
from typing import TYPE_CHECKING

from tour_pyserini.data.input_files import read_lines
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write

if TYPE_CHECKING:
    from ir_measures import Qrel

_GRADE = re.compile("-?[0-9]{1,10}")
_LIMIT = 2**31  # evaluators keep grades in 32 bits


def read_qrels(path: str | os.PathLike[str]) -> list["Qrel"]:
    """Read judgements: TREC's `qid 0 docid grade`, or BEIR's `query-id corpus-id score` below a header.

    Lines that begin with `#` are comments, as for trec_eval.
    """
    from ir_measures import Qrel

    qrels, seen, width = [], set(), None
    for line in read_lines(path, comments=True):
        columns = line.text.split()
        if line.number == 1 and columns[0] == "query-id":
            continue
        # All lines must have the same width: a TREC line without its grade would otherwise be read as a BEIR line.
        width = width or len(columns)
        if len(columns) != width or width not in (3, 4):
            line.refuse("is not a judgement: expected `qid 0 docid grade`, or BEIR's three columns")
        query, document, grade = columns[0], columns[-2], columns[-1]
        if not _GRADE.fullmatch(grade) or not -_LIMIT <= int(grade) < _LIMIT:
            line.refuse(f"has the grade {grade!r:.20}, which is not a whole number of 32 bits")
        if (query, document) in seen:
            line.refuse(f"judges document {document!r} for query {query!r} a second time")
        seen.add((query, document))
        qrels.append(Qrel(query, document, int(grade)))
    if not qrels:
        raise TourError(f"{path} holds no judgements.")
    return qrels


def write_qrels(qrels: list["Qrel"], path: str | os.PathLike[str]) -> None:
    """Write judgements in TREC's format, `qid 0 docid grade`."""
    with atomic_write(path) as file:
        file.writelines(f"{qrel.query_id} 0 {qrel.doc_id} {qrel.relevance}\n" for qrel in qrels)
