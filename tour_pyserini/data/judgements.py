"""Judgements (qrels files), and the splits of judged queries: annotations of train-test overlap, or a plain list."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tour_pyserini.data.input_files import IRDS, Location, read_lines
from tour_pyserini.data.irds import irds_qrels
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write

if TYPE_CHECKING:
    from ir_measures import Qrel

_GRADE = re.compile("[+-]?[0-9]{1,9}")  # evaluators keep grades in 32 bits
# The split names of Lewis et al. (2020), in the order of their tables; a query is in several of them.
_PUBLISHED = (
    *("total", "question_overlap", "no_question_overlap"),
    *("answer_overlap", "no_answer_overlap", "answer_overlap_only", "no_overlap"),
)


def read_qrels(path: str | os.PathLike[str]) -> list["Qrel"]:
    """Read judgements: TREC's `qid 0 docid grade`, BEIR's `query-id corpus-id score` below a header, or `irds:NAME`.

    Lines that begin with `#` are comments, as for trec_eval.
    """
    from ir_measures import Qrel

    if str(path).startswith(IRDS):
        return irds_qrels(str(path))
    qrels, seen, width = [], set(), None
    for line in read_lines(path, comments=True):
        columns = line.text.split()
        if width is None and columns[0] == "query-id":
            continue
        # All lines must have the same width: a TREC line without its grade would otherwise be read as a BEIR line.
        width = width or len(columns)
        if len(columns) != width or width not in (3, 4):
            line.refuse("is not a judgement: expected `qid 0 docid grade`, or BEIR's three columns")
        query, document, grade = columns[0], columns[-2], columns[-1]
        if not _GRADE.fullmatch(grade):
            line.refuse(f"has the grade {grade!r:.20}, which is not a whole number of at most nine digits")
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


def read_splits(
    path: str | os.PathLike[str], *, judged: Collection[str], topics: Sequence[str] | None = None
) -> dict[str, set[str]]:
    """Read the splits of an evaluation.

    Args:
        path: JSON lines as published by Lewis et al. (2020), `{"id": 0, "labels": ["total", "answer_overlap"]}`, whose
            ids are positions in the test set, from 0; or lines `qid<TAB>split`.
        judged: ids of the judged queries; without `topics`, the file must name no other.
        topics: all query ids in the order of the topics file; needed if the file gives positions.

    Returns:
        The query ids of each split, by its name; the published names come first.
    """
    known = set(judged if topics is None else topics)
    splits: dict[str, set[str]] = {}
    for line in read_lines(path):
        for query, split in _annotations(line, topics):
            if query not in known:
                line.refuse(f"names the query {query!r}, which is not in the {'topics' if topics else 'judgements'}")
            splits.setdefault(split, set()).add(query)
    if not splits:
        raise TourError(f"{path} puts no query into a split.")
    order = [*(name for name in _PUBLISHED if name in splits), *(name for name in splits if name not in _PUBLISHED)]
    return {name: splits[name] for name in order}


def _annotations(line: Location, topics: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """The query and the split of each annotation in a line."""
    if not line.text.lstrip().startswith("{"):
        columns = [column.strip() for column in line.text.split("\t")]
        if len(columns) != 2 or not all(columns):
            line.refuse("is not an annotation: expected JSON with `id` and `labels`, or `qid<TAB>split`")
        if columns != ["qid", "split"]:  # the header
            yield columns[0], columns[1]
        return
    record = line.json_object()
    if topics is None:
        line.refuse("gives the position of a question in the topics file; give that file with --topics")
    position = record.get("id")
    if not isinstance(position, int) or not 0 <= position < len(topics):
        line.refuse(f"has the id {position!r:.40}, which is not a position in the {len(topics)} topics, from 0")
    yield from ((topics[position], label) for label in line.strings(record.get("labels"), "`labels`"))
