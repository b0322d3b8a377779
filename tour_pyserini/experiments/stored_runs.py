"""All runs of a setup in one small file, to store in a repository."""

import json
import lzma
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.data.input_files import read_lines
from tour_pyserini.data.records import read_record
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


class Archive:
    """The runs of a setup: a line with their records, then lines `query<TAB>condition<TAB>docids`.

    A file that does not exist has no runs.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _content(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, list[str]]]]:
        """The records by condition, and the docids of each query, best first, by condition."""
        lines = read_lines(self.path) if self.path.is_file() else iter(())
        records = first.json_object() if (first := next(lines, None)) else {}
        docids: dict[str, dict[str, list[str]]] = {condition: {} for condition in records}
        for line in lines:
            columns = line.text.split("\t")
            if len(columns) != 3 or columns[1] not in docids:
                line.refuse("is not a query, a condition that has a record, and docids")
            docids[columns[1]][columns[0]] = columns[2].split()
        return records, docids

    @property
    def records(self) -> Mapping[str, Mapping[str, Any]]:
        """The record of each condition."""
        return self._content[0]

    def run(self, condition: str) -> list["ScoredDoc"]:
        """The hits of a condition; their scores only express their order."""
        from ir_measures import ScoredDoc

        return [
            ScoredDoc(query, docid, float(score))
            for query, docids in self._content[1][condition].items()
            for docid, score in zip(docids, range(len(docids), 0, -1), strict=True)
        ]

    def write(self, runs: Mapping[str, Path], *, keep: Collection[str] = ()) -> None:
        """Write the runs of conditions, and those that only the file has; the same runs give the same bytes.

        Args:
            runs: runs with their records by condition.
            keep: conditions whose runs stay in the file, if they are not given.
        """
        records, lists = ({name: part[name] for name in part if name in keep} for part in self._content)
        for condition, run in runs.items():
            record = read_record(run)
            if record is None:
                raise TourError(f"{run} does not match its record; make the run again.")
            records[condition] = {key: value for key, value in record.items() if key != "run"}
            lists[condition] = {query: [hit.doc_id for hit in hits] for query, hits in read_rankings(run).items()}
        with atomic_replace(self.path) as partial, lzma.open(partial, "wt", preset=6, encoding="utf-8") as file:
            file.write(json.dumps(records, ensure_ascii=False) + "\n")
            for query in dict.fromkeys(query for docids in lists.values() for query in docids):
                for condition, docids in lists.items():
                    if query in docids:
                        file.write(f"{query}\t{condition}\t{' '.join(docids[query])}\n")
        del self._content
