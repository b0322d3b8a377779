"""The record beside a run: how it was made, from what, and at what cost."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import sha256, written_whole

PASSAGE_INDEX = "tour-index.json"
"""The file in a folder of a passage index that tells how it was made."""
PHRASE_INDEX = "tour-phrases.json"
"""The same for a phrase index."""

_PACKAGES = ("tour_pyserini", "pyserini", "faiss-cpu", "torch", "transformers", "onnxruntime", "numpy")
# Reading a file larger than this only to name it would take longer than many a search.
_LARGEST = 4 << 30


def record_path(run: str | os.PathLike[str]) -> Path:
    """Where the record of a run is: `runs/a.trec` has `runs/a.trec.json`."""
    return Path(f"{os.fspath(run)}.json")


def predictions_path(run: str | os.PathLike[str]) -> Path:
    """Where the answers that came with a run are, unless told otherwise: `runs/a.trec.answers.jsonl`."""
    return Path(f"{os.fspath(run)}.answers.jsonl")


def write_record(
    run: str | os.PathLike[str],
    *,
    arguments: Mapping[str, Any],
    config: Any,
    files: Mapping[str, str | os.PathLike[str] | None],
    models: Mapping[str, str | None],
    found: Mapping[str, float],
    costs: Costs,
) -> None:
    """Write the record of a finished run.

    Args:
        run: the run file.
        arguments: the command's arguments by name.
        config: the settings that were used.
        files: the inputs by role; what is not a file on this machine (a prebuilt name) is kept as it is.
        models: fingerprints by role.
        found: settings that were found on the way rather than given.
        costs: what it cost.
    """
    record = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).stem, *sys.argv[1:]],
        "arguments": {name: str(value) for name, value in arguments.items() if value is not None},
        "config": str(config),
        "versions": {"python": platform.python_version(), **{name: version_of(name) for name in _PACKAGES}},
        "files": {role: _identity(path) for role, path in files.items() if path is not None},
        "models": {role: fingerprint for role, fingerprint in models.items() if fingerprint},
        "found": dict(found),
        "run": {"sha256": sha256(run)},
        "costs": dataclasses.asdict(costs),
    }
    with written_whole(record_path(run)) as file:
        json.dump(record, file, indent=1, ensure_ascii=False)
        file.write("\n")


def read_costs(run: str | os.PathLike[str]) -> Costs | None:
    """The costs in a run's record, or None where there is no record."""
    path = record_path(run)
    if not path.exists():
        return None
    try:
        return Costs(**json.loads(path.read_text(encoding="utf-8"))["costs"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(f"{path} is not the record of a run ({error}); remove it or make the run again.") from error


def version_of(package: str) -> str | None:
    """The version of an installed package, or None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _identity(path: str | os.PathLike[str]) -> dict[str, Any]:
    place = Path(path)
    if (place / PHRASE_INDEX).is_file():
        # Its description holds the checksums of the other files, which have gigabytes.
        return {"path": str(path), "files": {PHRASE_INDEX: _identity(place / PHRASE_INDEX)}}
    if place.is_dir():
        return {
            "path": str(path),
            "files": {name.name: _identity(name) for name in sorted(place.iterdir()) if name.is_file()},
        }
    if not place.is_file():
        return {"name": str(path)}
    size = place.stat().st_size
    return {"path": str(path), "bytes": size, **({"sha256": sha256(place)} if size <= _LARGEST else {})}
