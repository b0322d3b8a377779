"""Runs as they are kept: compressed, with a record that holds nothing of the machine they were made on."""

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.files import replaced_whole, sha256, written_whole
from tour_pyserini.record import record_path
from tour_pyserini.topics.lines import read_lines

# Of the search command's record; the others name this machine's places or repeat the settings.
_KEPT = ("config", "versions", "models", "costs")


def pack(run: Path, output: Path, *, only_order: bool, settings: str, inputs: Mapping[str, Path]) -> None:
    """Compress a run that the search command made, with its record, and remove both.

    Args:
        run: the plain run.
        output: the compressed one; the same content gives the same bytes.
        only_order: replace scores by whole numbers that say the same order, which compress far better.
        settings: what the run was made with, for `is_current`.
        inputs: the files it was made from, by role.
    """
    with (
        replaced_whole(output) as partial,
        open(partial, "wb") as raw,
        # No name and no time in the file's head.
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        open(run, "rb") as plain,
    ):
        packed.writelines(_ordered(run) if only_order else plain)
    record = json.loads(record_path(run).read_text(encoding="utf-8"))
    kept = {
        "settings": settings,
        "files": digests(inputs),
        "run": {"sha256": sha256(output)},
        **{key: record[key] for key in _KEPT if key in record},
    }
    with written_whole(record_path(output)) as file:
        file.write(json.dumps(kept, ensure_ascii=False) + "\n")
    for path in (run, record_path(run)):
        path.unlink()


def is_current(run: Path, *, settings: str, config: TourConfig, inputs: Mapping[str, Path]) -> bool:
    """Whether a packed run is there, undamaged, and made with these settings from these files."""
    record = _record(run)
    if record is None or not run.is_file():
        return False
    wanted = {"settings": settings, "files": digests(inputs), "run": {"sha256": sha256(run)}}
    return all(record.get(key) == value for key, value in wanted.items()) and _config(record) == config


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


def _record(run: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(record_path(run).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _config(record: dict[str, Any]) -> TourConfig | None:
    """The recorded settings; a setting that is younger than the record has its default."""
    try:
        return TourConfig.parse(str(record.get("config")))
    except TourError:
        return None


def _ordered(run: Path) -> Iterator[bytes]:
    """The hits with scores that count down to 1 within each query."""
    for hits in _by_query(run):
        for rank, (query, docid) in enumerate(hits, start=1):
            yield f"{query} Q0 {docid} {rank} {len(hits) - rank + 1} t\n".encode()


def _by_query(run: Path) -> Iterator[list[tuple[str, str]]]:
    hits: list[tuple[str, str]] = []
    for line in read_lines(run):
        query, _, docid, *_ = line.text.split()
        if hits and hits[-1][0] != query:
            yield hits
            hits = []
        hits.append((query, docid))
    if hits:
        yield hits
