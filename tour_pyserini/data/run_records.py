"""The record beside a run: how it was made, from what, and at what cost."""

import dataclasses
import json
import logging
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write, content_hash, sha256
from tour_pyserini.support.packages import version_of

log = logging.getLogger(__name__)

PASSAGE_INDEX = "tour-index.json"
"""Name of the record in the folder of a passage index."""
PHRASE_INDEX = "tour-phrases.json"
"""Name of the record in the folder of a phrase index."""

_PACKAGES = ("tour_pyserini", "pyserini", "faiss-cpu", "torch", "transformers", "onnxruntime", "numpy")
LARGEST_CHECKSUMMED = 4 << 30
"""Bytes; larger files get no checksum: computing it would take longer than many searches."""


def is_phrase_index(folder: str | os.PathLike[str] | None) -> bool:
    """Whether a folder is a phrase index."""
    return folder is not None and (Path(folder) / PHRASE_INDEX).is_file()


def record_path(run: str | os.PathLike[str]) -> Path:
    """The path of the record of a run: `runs/a.trec.json` for `runs/a.trec`."""
    return Path(f"{os.fspath(run)}.json")


def predictions_path(run: str | os.PathLike[str]) -> Path:
    """The default path of the answers that belong to a run: `runs/a.trec.answers.jsonl` for `runs/a.trec`."""
    return Path(f"{os.fspath(run)}.answers.jsonl")


def write_record(
    run: str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    command: Sequence[str],
    config: Any,
    files: Mapping[str, str | os.PathLike[str] | None],
    models: Mapping[str, str | None],
    found: Mapping[str, Any],
    costs: Costs,
    shard: Mapping[str, Any] | None = None,
) -> None:
    """Write the record of a finished run.

    Args:
        run: the run file.
        file: the same content, which becomes `run` after this: so no run is without its record.
        command: words that make the same run again: `python -m tour_pyserini.` and the first, then the others.
        config: the settings that were used.
        files: paths of the inputs by role; the name of a prebuilt index is recorded as a name.
        models: fingerprints by role.
        found: settings that were not given but computed during the search, such as the similarity scale.
        costs: counts and seconds of the run.
        shard: if the run is a shard, which one, and what `merge` needs to know.
    """
    record = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "config": str(config),
        "algorithm": config.algorithm,
        "versions": {"python": platform.python_version(), **{name: version_of(name) for name in _PACKAGES}},
        "files": {role: _identity(path) for role, path in files.items() if path is not None},
        "models": {role: fingerprint for role, fingerprint in models.items() if fingerprint},
        "found": dict(found),
        "run": {"sha256": sha256(file)},
        "costs": dataclasses.asdict(costs),
        **({"shard": dict(shard)} if shard else {}),
    }
    _write(run, record)


def rewrite_record(
    record: Mapping[str, Any],
    run: str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    command: Sequence[str],
    costs: Costs,
) -> None:
    """Write the record of a run that was joined from shards, from the record of one of them; `file` becomes `run`."""
    changes = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "run": {"sha256": sha256(file)},
        "costs": dataclasses.asdict(costs),
    }
    _write(run, {name: changes.get(name, value) for name, value in record.items() if name != "shard"})


def _write(run: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    with atomic_write(record_path(run)) as file:
        json.dump(record, file, indent=1)  # in ASCII: names of files need not be UTF-8
        file.write("\n")


def read_record(run: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Read a run's record; None if there is no record, or the run was changed since (with a warning)."""
    path = record_path(run)
    if not path.exists():
        return None
    try:
        record = read_json_object(path)
        Costs.from_record(record.get("costs"))
        made = record.get("run", {})
        if isinstance(made, dict) and made.get("sha256", content_hash(run)) == content_hash(run):
            return record
    except (OSError, ValueError) as error:
        raise TourError(f"{path} is not the record of a run ({first_line(error)}); delete it.") from error
    log.warning("%s belongs to another run than %s: its costs are not used; make the run again", path, run)
    return None


def _identity(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What identifies an input: its path with the size and checksum of each file, or the name of a prebuilt index."""
    input_path = Path(path)
    if is_phrase_index(input_path):
        # The index's own record holds the checksums of its other files, which are gigabytes large.
        return {"path": str(path), "files": {PHRASE_INDEX: _identity(input_path / PHRASE_INDEX)}}
    if input_path.is_dir():
        files = sorted(file for file in input_path.iterdir() if file.is_file())
        return {"path": str(path), "files": {file.name: _identity(file) for file in files}}
    if not input_path.is_file():
        return {"name": str(path)}
    size = input_path.stat().st_size
    checksum = {"sha256": content_hash(input_path)} if size <= LARGEST_CHECKSUMMED else {}
    return {"path": str(path), "bytes": size, **checksum}
