"""Memos: results of slow work that are kept between processes, one small file in the cache folder for each.

A result is used again only if the state that it was computed from is the same. Without a cache folder that can be
written, there are no memos and everything still works.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write, cache_home, sha256

_SMALL = 1 << 20  # bytes; a smaller file is hashed faster than its memo is found
# A file that was changed less than this many nanoseconds ago may be changed again without a new time of change.
_RECENT = 2_000_000_000

State = Sequence[str | int | bool | None]


def read_memo(what: str, name: str, state: State) -> str | None:
    """The result for this name, if it was computed from the same state; else None.

    Args:
        what: the kind of result, such as "sha256".
        name: what the result is about, such as a path.
        state: everything that the result depends on.
    """
    try:
        stored = json.loads(_path(what, name).read_text(encoding="utf-8"))
        same = (stored["what"], stored["name"], stored["state"]) == (what, name, list(state))
        return stored["value"] if same and isinstance(stored["value"], str) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # never computed, or the file is damaged
        return None


def write_memo(what: str, name: str, state: State, value: str) -> None:
    """Keep a result for `read_memo`; an older result for the same name is replaced."""
    record = {"what": what, "name": name, "state": list(state), "value": value}
    with contextlib.suppress(TourError, OSError), atomic_write(_path(what, name)) as file:
        json.dump(record, file)


def content_hash(path: str | os.PathLike[str], *, read_again: bool = False) -> str:
    """The SHA-256 of a file; the content is read again only if the file was changed since the last time.

    A file counts as unchanged if its path, size, inode and both times of change are the same. The hash of a file that
    was changed during the last two seconds is not kept for other processes: its next change might have the same time.

    Args:
        path: the file.
        read_again: read the content in any case.
    """
    if read_again:
        return sha256(path)
    return _hash(Path(path).resolve(), *file_state(path))


def check_once(what: str, path: str | os.PathLike[str], check: Callable[[Path], object], *, version: int = 1) -> None:
    """Call `check(path)`, unless it ended without an error before and the file has not changed since.

    Args:
        what: the kind of check.
        path: the file.
        check: raises an error if the file is not what it should be.
        version: of the check: another one forgets what older ones found.
    """
    path = Path(path)
    name, state = str(path.resolve()), file_state(path)
    if read_memo(what, name, (*state, version)) is not None:
        return
    started = time.time_ns()
    check(path)
    if state[0] >= _SMALL and _is_settled(path, state, started):
        write_memo(what, name, (*state, version), "passed")


@lru_cache(maxsize=1024)
def _hash(path: Path, *state: int) -> str:
    if state[0] < _SMALL:
        return sha256(path)
    if known := read_memo("sha256", str(path), state):
        return known
    started = time.time_ns()
    value = sha256(path)
    if _is_settled(path, state, started):
        write_memo("sha256", str(path), state, value)
    return value


def _is_settled(path: Path, state: tuple[int, ...], started: int) -> bool:
    """Whether a file had its state for some time before `started` (nanoseconds), and has it still."""
    return max(state[2:]) < started - _RECENT and file_state(path) == state


def file_state(path: str | os.PathLike[str]) -> tuple[int, int, int, int]:
    """Size, inode and the two times of change of a file: if they are the same, its content counts as unchanged."""
    status = os.stat(path)
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _path(what: str, name: str) -> Path:
    return cache_home() / "memos" / f"{hashlib.sha256(f'{what}:{name}'.encode()).hexdigest()[:32]}.json"
