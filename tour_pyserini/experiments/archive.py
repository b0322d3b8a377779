"""All runs of a cell in one small file, for repositories.

The first line is JSON: the conditions' records. Each other line is a query, a condition and docids in order, separated
by tabs and blanks. Lists of one query stand together, where they compress to a byte or so a hit; scores are not kept,
since measures need no more than the order.
"""

import json
import lzma
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.files import read_run
from tour_pyserini.evaluation.kept_order import by_rank
from tour_pyserini.evaluation.ranking import best_first
from tour_pyserini.experiments.packing import Record, read_record
from tour_pyserini.files import replaced_whole
from tour_pyserini.topics.lines import Line, read_lines

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


class Archive(NamedTuple):
    """Records, and docids by query, of each condition."""

    records: Mapping[str, Record]
    docids: Mapping[str, Mapping[str, list[str]]]

    def run(self, condition: str) -> list["ScoredDoc"]:
        """The hits of a condition, with scores that say no more than their order."""
        from ir_measures import ScoredDoc

        return [
            ScoredDoc(query, docid, score)
            for query, docids in self.docids[condition].items()
            for docid, score in zip(docids, by_rank(len(docids)), strict=True)
        ]


def write_archive(runs: Mapping[str, Path], output: Path) -> None:
    """Write runs with their records, by condition; the same runs give the same bytes."""
    records = {}
    for condition, run in runs.items():
        record = read_record(run)
        if record is None:
            raise TourError(f"{run} is not what its record says; make the run again.")
        records[condition] = {key: value for key, value in record.items() if key != "run"}
    lists = {condition: _docids(run) for condition, run in runs.items()}
    queries = dict.fromkeys(query for docids in lists.values() for query in docids)
    with replaced_whole(output) as partial, lzma.open(partial, "wt", preset=6, encoding="utf-8") as file:
        file.write(json.dumps(records, ensure_ascii=False) + "\n")
        for query in queries:
            for condition, docids in lists.items():
                if query in docids:
                    file.write(f"{query}\t{condition}\t{' '.join(docids[query])}\n")


def read_archive(path: Path) -> Archive:
    """Read what `write_archive` wrote."""
    lines = read_lines(path)
    records = _records(path, lines)
    docids: dict[str, dict[str, list[str]]] = {condition: {} for condition in records}
    for line in lines:
        query, condition, hits = _parts(line)
        if condition not in docids:
            line.refuse(f"is of the condition {condition!r}, which the first line does not have")
        docids[condition][query] = hits
    return Archive(records, docids)


def read_records(path: Path) -> Mapping[str, Record]:
    """Only the records; nothing where there is no such file."""
    return _records(path, read_lines(path)) if path.is_file() else {}


def _records(path: Path, lines: Iterator[Line]) -> Mapping[str, Record]:
    first = next(lines, None)
    try:
        records = json.loads(first.text) if first else None
    except ValueError:
        records = None
    if not isinstance(records, dict):
        raise TourError(f"{path} is not an archive of runs; its first line should hold their records.")
    return records


def _parts(line: Line) -> tuple[str, str, list[str]]:
    columns = line.text.split("\t")
    if len(columns) != 3:
        line.refuse("is not a query, a condition and docids")
    return columns[0], columns[1], columns[2].split()


def _docids(run: Path) -> dict[str, list[str]]:
    found: dict[str, list[ScoredDoc]] = {}
    for hit in read_run(run):
        found.setdefault(hit.query_id, []).append(hit)
    return {query: [hit.doc_id for hit in best_first(hits)] for query, hits in found.items()}
