"""Runs as they are kept: compressed, with a record that holds nothing of the machine they were made on."""

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.predictions import read_predictions
from tour_pyserini.files import replaced_whole, sha256, written_whole
from tour_pyserini.record import predictions_path, record_path

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
        replaced_whole(output) as partial,
        open(partial, "wb") as raw,
        # No name and no time in the file's head.
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
    ):
        packed.write(content)
    with written_whole(record_path(output)) as file:
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
