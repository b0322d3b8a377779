"""Stored runs: one compressed run with its record, and all runs of a setup in one small file (an archive)."""

import gzip
import json
import lzma
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.input_files import Line, json_object, read_json_object, read_lines
from tour_pyserini.data.predictions import read_predictions
from tour_pyserini.data.records import predictions_path, record_path
from tour_pyserini.data.runs import best_first, read_run, scores_by_rank
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Experiment, Setup, conditions_of
from tour_pyserini.experiments.locations import Locations
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_replace, atomic_write, sha256

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

Record = Mapping[str, Any]

# Fields of the search command's record that are kept; the others have paths of this machine or repeat the settings.
_KEPT_FIELDS = ("config", "algorithm", "versions", "models", "costs")

# Checksums that were computed before, so that a corpus is not read again for every condition.
_digests: dict[tuple[Path, int, int], str] = {}


def pack(
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
    made = json.loads(record_path(run).read_text(encoding="utf-8"))
    kept = {key: made[key] for key in _KEPT_FIELDS if key in made}
    record = {"settings": settings, "command": command, "files": digests(inputs), **kept}
    predictions = predictions_path(run)
    if answers:
        record["answers_kept"] = answers
        record["answers"] = {qid: predicted[:answers] for qid, predicted in read_predictions(predictions).items()}
    write_packed(run.read_bytes(), output, record)
    for path in (run, record_path(run), predictions):
        path.unlink(missing_ok=True)


def write_packed(content: bytes, output: Path, record: Record) -> None:
    """Write a run's lines compressed, and its record beside it."""
    with (
        atomic_replace(output) as partial,
        open(partial, "wb") as raw,
        # Without a name and a time in its header, the same content gives the same bytes.
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
    ):
        packed.write(content)
    with atomic_write(record_path(output)) as file:
        file.write(json.dumps({**record, "run": {"sha256": sha256(output)}}, ensure_ascii=False) + "\n")


def read_record(run: Path) -> Record | None:
    """The record of a run; None if the run or its record is missing or damaged."""
    try:
        record = read_json_object(record_path(run))
        _check_answers(record)
        return record if record["run"]["sha256"] == sha256(run) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_current(
    record: Record | None, *, settings: str, config: TourConfig, inputs: Mapping[str, Path], answers: int = 0
) -> bool:
    """Whether a run with this record was made with these settings from these files, and has that many answers.

    A run of an earlier version of its method, or of the scale of similarities, is not current.
    """
    if record is None or record.get("settings") != settings or record.get("answers_kept", 0) < answers:
        return False
    # Version 0.1 did not record it: everything had its first version.
    if record.get("algorithm", dict.fromkeys(config.algorithm, 1)) != config.algorithm:
        return False
    if not _same_files(record.get("files", {}), digests(inputs)):
        return False
    try:
        # A setting that did not exist when the record was written has its default.
        return TourConfig.parse(str(record.get("config"))) == config
    except TourError:
        return False


def _same_files(made: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a run was made from these files; older records do not list the files of models."""
    if not isinstance(made, dict):
        return False
    compared = {role for role in now if role in made or role in ("topics", "corpus", "qrels")}
    return {role: now[role] for role in compared} == dict(made)


def digests(inputs: Mapping[str, Path]) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {role: _digest(path, os.stat(path)) for role, path in inputs.items()}


def _digest(path: Path, state: os.stat_result) -> str:
    key = (path, state.st_size, state.st_mtime_ns)
    if key not in _digests:
        _digests[key] = sha256(path)
    return _digests[key]


class Archive(NamedTuple):
    """The runs of a setup.

    Attributes:
        records: the record of each condition.
        docids: the docids of each query, best first, by condition.
    """

    records: Mapping[str, Record]
    docids: Mapping[str, Mapping[str, list[str]]]

    def run(self, condition: str) -> list["ScoredDoc"]:
        """The hits of a condition; their scores only express their order."""
        from ir_measures import ScoredDoc

        return [
            ScoredDoc(query, docid, score)
            for query, docids in self.docids[condition].items()
            for docid, score in zip(docids, scores_by_rank(len(docids)), strict=True)
        ]


def write_archive(runs: Mapping[str, Path], output: Path) -> None:
    """Write the runs of each condition, with their records, into one file; the same runs give the same bytes."""
    records = {}
    for condition, run in runs.items():
        record = read_record(run)
        if record is None:
            raise TourError(f"{run} does not match its record; make the run again.")
        records[condition] = {key: value for key, value in record.items() if key != "run"}
    lists = {condition: _docids(run) for condition, run in runs.items()}
    queries = dict.fromkeys(query for docids in lists.values() for query in docids)
    with atomic_replace(output) as partial, lzma.open(partial, "wt", preset=6, encoding="utf-8") as file:
        file.write(json.dumps(records, ensure_ascii=False) + "\n")
        for query in queries:
            for condition, docids in lists.items():
                if query in docids:
                    file.write(f"{query}\t{condition}\t{' '.join(docids[query])}\n")


def read_archive(path: Path) -> Archive:
    """Read an archive that `write_archive` wrote."""
    lines = read_lines(path)
    records = _records(path, lines)
    docids: dict[str, dict[str, list[str]]] = {condition: {} for condition in records}
    for line in lines:
        query, condition, hits = _parts(line)
        if condition not in docids:
            line.refuse(f"has the condition {condition!r}, which has no record in the first line")
        if query in docids[condition]:
            line.refuse(f"has the query {query!r} of {condition!r} a second time")
        docids[condition][query] = hits
    return Archive(records, docids)


def read_records(path: Path) -> Mapping[str, Record]:
    """Read only the records of an archive, by condition; an empty mapping if the file does not exist."""
    return _records(path, read_lines(path)) if path.is_file() else {}


def _records(path: Path, lines: Iterator[Line]) -> Mapping[str, Record]:
    first = next(lines, None)
    if first is None or not first.text.startswith("{"):
        raise TourError(f"{path} is not an archive of runs: the first line must have their records as JSON.")
    records = json_object(first)
    for condition, record in records.items():
        if not isinstance(record, dict):
            first.refuse(f"has a record of {condition!r:.100} that is not a JSON object")
        try:
            Costs.from_record(record.get("costs", {}))
            _check_answers(record)
        except ValueError as error:
            first.refuse(f"has a damaged record of {condition!r:.100}: {error}")
    return records


def _check_answers(record: Record) -> None:
    answers, kept = record.get("answers", {}), record.get("answers_kept", 0)
    if not isinstance(kept, int) or not isinstance(answers, dict):
        raise ValueError("its answers are not lists by question")
    for predicted in answers.values():
        if not isinstance(predicted, list) or not all(isinstance(answer, str) for answer in predicted):
            raise ValueError("its answers are not lists of texts")


def _parts(line: Line) -> tuple[str, str, list[str]]:
    columns = line.text.split("\t")
    if len(columns) != 3 or columns[0].split() != columns[:1]:
        line.refuse("does not have three columns: query, condition, docids")
    hits = columns[2].split()
    if len(set(hits)) < len(hits):
        line.refuse("has a document twice")
    return columns[0], columns[1], hits


def _docids(run: Path) -> dict[str, list[str]]:
    hits_by_query: dict[str, list[ScoredDoc]] = {}
    for hit in read_run(run):
        hits_by_query.setdefault(hit.query_id, []).append(hit)
    return {query: [hit.doc_id for hit in best_first(hits)] for query, hits in hits_by_query.items()}


def pack_setups(experiment: Experiment, chosen: Sequence[Setup], locations: Locations) -> Iterator[Path]:
    """Write the existing runs of each setup into its archive, which is replaced.

    Raises:
        TourError: an archive has runs of this experiment that are not files: it would lose them.
    """
    for setup in chosen:
        runs = {name: locations.run(setup, name) for name in conditions_of(experiment, setup)}
        runs = {name: run for name, run in runs.items() if run.is_file()}
        archive = locations.archive(setup)
        if runs:
            lost = [
                name for name in read_records(archive) if name in conditions_of(experiment, setup) and name not in runs
            ]
            if lost:
                raise TourError(
                    f"{archive} would lose {len(lost)} runs that are not files, such as {lost[0]}; --unpack them first."
                )
            write_archive(runs, archive)
            yield archive


def unpack_setups(experiment: Experiment, chosen: Sequence[Setup], locations: Locations) -> Iterator[Path]:
    """Write the runs in archives that are not files yet, as TREC runs; their scores only express their order."""
    for setup in chosen:
        if not locations.archive(setup).is_file():
            continue
        archive = read_archive(locations.archive(setup))
        for name in conditions_of(experiment, setup):
            output = locations.run(setup, name)
            if name in archive.records and not output.exists():
                content = "".join(_trec_lines(archive.run(name), name)).encode()
                write_packed(content, output, archive.records[name])
                yield output


def _trec_lines(run: "Sequence[ScoredDoc]", tag: str) -> Iterator[str]:
    query, rank = None, 0
    for hit in run:
        rank = rank + 1 if hit.query_id == query else 1
        query = hit.query_id
        yield f"{query} Q0 {hit.doc_id} {rank} {hit.score:.6f} {tag}\n"
