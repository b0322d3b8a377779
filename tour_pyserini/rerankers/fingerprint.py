"""Naming a model by its content, so that no score outlives the model that gave it."""

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tour_pyserini.files import sha256


def fingerprint(kind: str, files: Iterable[Path], **settings: object) -> str:
    """A digest of everything that a score depends on besides the pair.

    Args:
        kind: how the model is run, such as "onnx".
        files: weights, tokenizer and configuration; their names and contents count, not where they are.
        settings: maximum length, input template and whatever else changes scores.

    Example:
        >>> fingerprint("onnx", [], max_length=256) == fingerprint("onnx", [], max_length=512)
        False
    """
    contents = sorted((path.name, content_hash(path)) for path in files)
    told = json.dumps([kind, contents, settings], sort_keys=True, default=str)
    return f"{kind}:{hashlib.sha256(told.encode()).hexdigest()}"


def content_hash(path: Path) -> str:
    """The SHA-256 of a file, computed once per process while size and time of change stay the same."""
    state = path.stat()
    return _hash(path.resolve(), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _hash(path: Path, size: int, mtime_ns: int) -> str:
    return sha256(path)
