"""Stored runs: one compressed run with its record, and all runs of a setup in one small file (an archive)."""

import gzip
import json
import lzma
import re
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.input_files import json_object, read_json_object, read_lines
from tour_pyserini.data.json_results import read_predictions
from tour_pyserini.data.records import predictions_path, record_path
from tour_pyserini.data.runs import read_rankings, scores_by_rank
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import Algorithm
from tour_pyserini.support.files import atomic_replace, atomic_write, content_hash, sha256

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

Record = Mapping[str, Any]

# Fields of the search command's record that are kept; the others have paths of this machine or repeat the settings.
_KEPT_FIELDS = ("config", "algorithm", "versions", "models", "costs")


def pack_run(
    run: Path, output: Path, *, settings: str, inputs: Mapping[str, Path], command: str = "", answers: int = 0
) -> None:
    """Compress a run that a search made, write its record beside it, and remove the originals.

    Args:
        run: the run that the search wrote.
        output: the compressed run; the same content gives the same bytes.
        settings: how the run was made, for `is_current`.
        inputs: the files it was made from, by role.
        command: the command line that makes the run again.
        answers: how many predicted answers of each question are kept in the record.
    """
    made = read_json_object(record_path(run))
    kept = {key: made[key] for key in _KEPT_FIELDS if key in made}
    record = {"settings": settings, "command": command, "files": _hashes(inputs), **kept}
    predictions = predictions_path(run)
    if answers:
        record["answers_kept"] = answers
        record["answers"] = {qid: predicted[:answers] for qid, predicted in read_predictions(predictions).items()}
    write_stored_run(run.read_bytes(), output, record)
    for path in (run, record_path(run), predictions):
        path.unlink(missing_ok=True)


def write_stored_run(content: bytes, output: Path, record: Record) -> None:
    """Write a run's lines compressed, and its record beside it."""
    # Without a name and a time in its header, the same content gives the same bytes.
    with (
        atomic_write(output, "wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
    ):
        packed.write(content)
    with atomic_write(record_path(output)) as file:
        file.write(json.dumps({**record, "run": {"sha256": sha256(output)}}, ensure_ascii=False) + "\n")


def read_record(run: Path) -> Record | None:
    """The record of a run; None if the run or its record is missing or damaged."""
    try:
        record = read_json_object(record_path(run))
        return record if record["run"]["sha256"] == sha256(run) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_current(
    record: Record | None, *, settings: str, config: TourConfig, inputs: Mapping[str, Path], answers: int = 0
) -> bool:
    """Whether a run with this record was made with these settings from these files, and has that many answers.

    A run of an earlier version of its method is not current.
    """
    if record is None or record.get("settings") != settings or record.get("answers_kept", 0) < answers:
        return False
    # Version 0.1 did not record it: everything had its first version.
    if record.get("algorithm", dict.fromkeys(config.algorithm, 1)) != config.algorithm:
        return False
    made, now = record.get("files", {}), _hashes(inputs)
    # Older records do not list the files of models.
    if {role: now[role] for role in now if role in made or role in ("topics", "corpus", "qrels")} != made:
        return False
    try:
        # A setting that did not exist when the record was written has its default.
        return TourConfig.parse(str(record.get("config"))) == config
    except TourError:
        return False


def algorithm_of(record: Record | None) -> Algorithm | None:
    """The method that made the run of a record, and its version; None if there is no record, or it does not say."""
    method = re.match(r"method=(\S+)", str((record or {}).get("config", "")))
    # Version 0.1 did not record it: everything had its first version.
    return Algorithm(method[1], (record or {}).get("algorithm", {}).get("method", 1)) if method else None


def _hashes(inputs: Mapping[str, Path]) -> dict[str, str]:
    return {role: content_hash(path) for role, path in inputs.items()}


class Archive:
    """The runs of a setup in one small file: their records, and `query<TAB>condition<TAB>docids` in each other line.

    A file that does not exist has no runs.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The record of each condition."""
        first = next(read_lines(self.path), None) if self.path.is_file() else None
        if first is not None and not first.text.startswith("{"):
            raise TourError(f"{self.path} is not an archive of runs: the first line must have their records as JSON.")
        return json_object(first) if first is not None else {}

    @cached_property
    def docids(self) -> Mapping[str, Mapping[str, list[str]]]:
        """The docids of each query, best first, by condition."""
        docids: dict[str, dict[str, list[str]]] = {condition: {} for condition in self.records}
        for line in read_lines(self.path) if docids else ():
            if line.number > 1:
                columns = line.text.split("\t")
                if len(columns) != 3 or columns[1] not in docids:
                    line.refuse("is not a query, a condition that has a record, and docids")
                docids[columns[1]][columns[0]] = columns[2].split()
        return docids

    def run(self, condition: str) -> list["ScoredDoc"]:
        """The hits of a condition; their scores only express their order."""
        from ir_measures import ScoredDoc

        return [
            ScoredDoc(query, docid, score)
            for query, docids in self.docids[condition].items()
            for docid, score in zip(docids, scores_by_rank(len(docids)), strict=True)
        ]

    def write(self, runs: Mapping[str, Path], *, keep: Collection[str] = ()) -> None:
        """Write the packed runs of conditions, and those that only the file has; the same runs give the same bytes.

        Args:
            runs: packed runs by condition.
            keep: conditions whose runs stay in the file, if they are not given.
        """
        records = {name: record for name, record in self.records.items() if name in keep}
        lists = {name: docids for name, docids in self.docids.items() if name in keep}
        for condition, run in runs.items():
            record = read_record(run)
            if record is None:
                raise TourError(f"{run} does not match its record; make the run again.")
            records[condition] = {key: value for key, value in record.items() if key != "run"}
            lists[condition] = {query: [hit.doc_id for hit in hits] for query, hits in read_rankings(run).items()}
        queries = dict.fromkeys(query for docids in lists.values() for query in docids)
        with atomic_replace(self.path) as partial, lzma.open(partial, "wt", preset=6, encoding="utf-8") as file:
            file.write(json.dumps(records, ensure_ascii=False) + "\n")
            for query in queries:
                for condition, docids in lists.items():
                    if query in docids:
                        file.write(f"{query}\t{condition}\t{' '.join(docids[query])}\n")
        self.__dict__.pop("records", None)
        self.__dict__.pop("docids", None)
