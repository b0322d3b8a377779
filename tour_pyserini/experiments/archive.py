"""Runs as a repository keeps them: compressed, with records, all runs of a cell in one file."""

import gzip
import json
import lzma
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.lines import Line, read_lines
from tour_pyserini.data.predictions import read_predictions
from tour_pyserini.data.records import predictions_path, record_path
from tour_pyserini.data.runs import best_first, read_run, scores_by_rank
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Cell, Experiment, conditions_of
from tour_pyserini.experiments.locations import Places
from tour_pyserini.support.files import atomic_replace, atomic_write, sha256

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

Record = Mapping[str, Any]

# Of the search command's record; the others name this machine's places or repeat the settings.
_KEPT = ("config", "versions", "models", "costs")


def pack(run: Path, output: Path, *, settings: str, inputs: Mapping[str, Path], answers: int = 0) -> None:
    """Compress a run that the search command made, with its record, and remove both.

    Args:
        run: the plain run.
        output: the compressed one; the same content gives the same bytes.
        settings: what the run was made with, for `is_current`.
        inputs: the files it was made from, by role.
        answers: of the answers beside a run, how many of each question are kept, in the record.
    """
    made = json.loads(record_path(run).read_text(encoding="utf-8"))
    record = {"settings": settings, "files": digests(inputs), **{key: made[key] for key in _KEPT if key in made}}
    predictions = predictions_path(run)
    if answers:
        record["answers_kept"] = answers
        record["answers"] = {qid: each[:answers] for qid, each in read_predictions(predictions).items()}
    write_packed(run.read_bytes(), output, record)
    for path in (run, record_path(run), predictions):
        path.unlink(missing_ok=True)


def write_packed(content: bytes, output: Path, record: Record) -> None:
    """Write a run's lines compressed, and its record beside it."""
    with (
        atomic_replace(output) as partial,
        open(partial, "wb") as raw,
        # No name and no time in the file's head.
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
    ):
        packed.write(content)
    with atomic_write(record_path(output)) as file:
        file.write(json.dumps({**record, "run": {"sha256": sha256(output)}}, ensure_ascii=False) + "\n")


def read_record(run: Path) -> Record | None:
    """The record of a run that is there and undamaged; None otherwise."""
    try:
        record = json.loads(record_path(run).read_text(encoding="utf-8"))
        return record if record["run"]["sha256"] == sha256(run) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_current(
    record: Record | None, *, settings: str, config: TourConfig, inputs: Mapping[str, Path], answers: int = 0
) -> bool:
    """Whether a run with this record was made with these settings from these files, and has that many answers."""
    if record is None or record.get("settings") != settings or record.get("answers_kept", 0) < answers:
        return False
    if not _same_files(record.get("files", {}), digests(inputs)):
        return False
    try:
        # A setting that is younger than the record has its default.
        return TourConfig.parse(str(record.get("config"))) == config
    except TourError:
        return False


def _same_files(made: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a run was made from these files; older records do not name the files of models."""
    asked = {role for role in now if role in made or role in ("topics", "corpus", "qrels")}
    return {role: now[role] for role in asked} == dict(made)


def digests(inputs: Mapping[str, Path]) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {role: _digest(path, os.stat(path)) for role, path in inputs.items()}


def _digest(path: Path, state: os.stat_result) -> str:
    key = (path, state.st_size, state.st_mtime_ns)
    if key not in _DIGESTS:
        _DIGESTS[key] = sha256(path)
    return _DIGESTS[key]


# A corpus is read once, not once for every condition.
_DIGESTS: dict[tuple[Path, int, int], str] = {}


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
            for docid, score in zip(docids, scores_by_rank(len(docids)), strict=True)
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
    with atomic_replace(output) as partial, lzma.open(partial, "wt", preset=6, encoding="utf-8") as file:
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


def pack_cells(experiment: Experiment, chosen: Sequence[Cell], places: Places) -> Iterator[Path]:
    """Put the runs there are of each cell into its archive, in place of what was in it."""
    for cell in chosen:
        runs = {name: places.run(cell, name) for name in conditions_of(experiment, cell)}
        runs = {name: run for name, run in runs.items() if run.is_file()}
        if runs:
            write_archive(runs, places.archive(cell))
            yield places.archive(cell)


def unpack_cells(experiment: Experiment, chosen: Sequence[Cell], places: Places) -> Iterator[Path]:
    """Write the runs of each archive that are not files yet, as TREC runs with scores that say their order."""
    for cell in chosen:
        if not places.archive(cell).is_file():
            continue
        archive = read_archive(places.archive(cell))
        for name in conditions_of(experiment, cell):
            output = places.run(cell, name)
            if name in archive.records and not output.exists():
                content = "".join(_lines(archive.run(name), name)).encode()
                write_packed(content, output, archive.records[name])
                yield output


def _lines(run: "Sequence[ScoredDoc]", tag: str) -> Iterator[str]:
    query, rank = None, 0
    for hit in run:
        rank = rank + 1 if hit.query_id == query else 1
        query = hit.query_id
        yield f"{query} Q0 {hit.doc_id} {rank} {hit.score:.6f} {tag}\n"
