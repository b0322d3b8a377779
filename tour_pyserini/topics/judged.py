"""The queries of one split."""

import copy
import os
from typing import TYPE_CHECKING

from tour_pyserini.errors import TourError
from tour_pyserini.topics.lines import Line, read_lines

if TYPE_CHECKING:
    from pyserini.query_iterator import QueryIterator


def judged_only(iterator: "QueryIterator", qrels_path: str | os.PathLike[str]) -> "QueryIterator":
    """Only the topics that a qrels file judges; BEIR's queries.jsonl holds those of all splits.

    Args:
        iterator: topics, left as they are.
        qrels_path: TREC (`qid 0 docid grade`) or BEIR (`qid<TAB>docid<TAB>grade` below a header) judgements; a
            judgement of 0 counts.
    """
    judged = {_judged(line) for line in read_lines(qrels_path) if not _is_header(line)}
    kept = copy.copy(iterator)
    kept.topics = {qid: topic for qid, topic in iterator.topics.items() if str(qid) in judged}
    kept.order = [qid for qid in iterator.order if qid in kept.topics]
    if not kept.topics:
        raise TourError(f"{qrels_path} judges none of the {len(iterator)} topics; check that both belong together.")
    return kept


def _is_header(line: Line) -> bool:
    return line.number == 1 and line.text.split("\t")[0].strip() == "query-id"


def _judged(line: Line) -> str:
    columns = line.text.split()
    if len(columns) not in (3, 4) or not columns[-1].removeprefix("-").isdigit():
        line.refuse("is no judgement (expected `qid 0 docid grade`, or query id, document id and grade)")
    return columns[0]
