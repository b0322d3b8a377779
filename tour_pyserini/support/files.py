"""Files: written atomically, checked, and hashed; memos of slow work on them, kept between processes.

A memo is a small file in the cache folder. It is used again only if the state that it was computed from is the same.
Without a cache folder that can be written, there are no memos and everything still works.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from tour_pyserini.errors import TourError

# The disk, the user's share of it or the largest allowed file is full, or the disk has become read-only.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

_LONGEST = 100  # bytes of the output's name that the name of its temporary repeats; a file name has 255 at most
# The system releases the lock of a temporary when its process ends, however it ends. Some network file systems do not
# show the locks of other machines: a temporary of another machine must also be this old to be removed.
_ABANDONED = 86_400  # seconds
_LOCK = ".lock"
_UNFINISHED = f".{platform.node() or 'unknown'}.unfinished"

MAPPED_FROM = 1 << 28
"""Bytes; larger files of an index are memory-mapped. Smaller ones are read, and so survive a change of the file."""


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Write a file that appears only when it is complete: if the block fails, `path` is not changed.

    Example:
        with atomic_write("runs/a.trec") as run:
            run.write("q1 Q0 d1 1 0.5 tag")
    """
    with (
        atomic_replace(path) as partial,
        open(partial, mode, encoding=None if "b" in mode else "utf-8") as file,
    ):
        yield file


@contextmanager
def atomic_replace(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a temporary file that replaces `path` when the block ends without an error.

    A new file has the permissions that the user's umask gives it; a file that is replaced keeps its own. /dev/stdout
    and other streams are written directly.
    """
    if is_stream(path):
        yield Path(path)
        return
    path = _file_path(path)
    with _temporary(path, Path.touch) as partial:
        yield partial
        with _refusing(path):
            if path.exists():
                partial.chmod(stat.S_IMODE(path.stat().st_mode))
            partial.replace(path)


@contextmanager
def atomic_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give the path of a temporary folder that becomes `folder` when the block ends; it is deleted if the block fails.

    Raises:
        TourError: if `check_folder` refuses `folder` at the end of the block.
    """
    folder = folder.resolve()  # a symbolic link stays a link
    with _temporary(folder, Path.mkdir) as partial:
        yield partial
        check_folder(folder, overwrite=overwrite)
        with _refusing(folder):
            if overwrite and folder.exists():
                partial.chmod(stat.S_IMODE(folder.stat().st_mode))
                _exchange(partial, folder)  # what is replaced is deleted with the temporary
            else:
                partial.rename(folder)  # fails if another process has just created a folder of this name with files


def _exchange(new: Path, old: Path) -> None:
    """Give two folders each other's name in one step, so that one of them always has the name `old`."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename is None or rename(here, os.fsencode(new), here, os.fsencode(old), exchange) != 0:
        # A system or a file system that cannot do it (macOS, some network disks).
        old.rename(new.with_name(".replaced"))
        new.rename(old)


def remove_folder(folder: Path) -> None:
    """Delete a folder. It loses its name at once: if this is interrupted, what is left is a temporary."""
    with _temporary(folder, Path.mkdir) as partial:
        folder.rename(partial)


def is_stream(path: str | os.PathLike[str] | None) -> bool:
    """Whether a path is an open stream of this process, such as /dev/stdout, or /dev/null."""
    return str(path).startswith(("/dev/stdout", "/dev/stderr", "/dev/fd/", "/dev/null"))


def _file_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file to write. A symbolic link stays a link: the file it points to is replaced."""
    path = Path(os.path.realpath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        raise TourError(f"cannot write {path}: it is a folder or a device; give the name of a file.")
    return path


@contextmanager
def _temporary(path: Path, create: Callable[[Path], None]) -> Iterator[Path]:
    """Create an empty file or folder named as `path`, in a locked folder beside it that is deleted after the block."""
    with writing_to(path), contextlib.ExitStack() as stack:
        with _refusing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(path.parent)
            folder = _locked_folder(path, stack)
            create(folder / path.name)
        yield folder / path.name


def _locked_folder(path: Path, stack: contextlib.ExitStack) -> Path:
    """A new folder beside `path`, locked until the stack is closed, which also deletes it."""
    from filelock import FileLock, Timeout

    start = os.fsdecode(os.fsencode(path.name)[:_LONGEST])
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{start}.", suffix=_UNFINISHED, dir=path.parent))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            stack.enter_context(FileLock(folder / _LOCK, timeout=0))
        except Timeout:  # another process takes it for an abandoned one
            continue
        except OSError:  # a file system without locks: nobody removes temporaries there
            pass
        if folder.is_dir():
            return folder


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporaries of processes that no longer live from a folder."""
    from filelock import FileLock

    for path in folder.glob(".*.unfinished"):
        with contextlib.suppress(OSError):  # in use, or another process removes it
            here = path.name.endswith(_UNFINISHED)
            if here or path.stat().st_mtime < time.time() - _ABANDONED:
                with FileLock(path / _LOCK, timeout=0):
                    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn any error of the system into a TourError that names the output."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Turn an error of any library that means a full disk into a TourError that names the output."""
    try:
        yield
    except TourError:
        raise
    except Exception as error:
        if full_disk(error):
            raise unwritable(path, error) from error
        raise


def check_output(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | None] = ()) -> None:
    """Refuse an output path that cannot be written or that is one of the inputs; None stands for an absent input."""
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output):
            raise TourError(f"{output} would overwrite the input {path}; choose another output.")
    if is_stream(output):
        return
    existed = Path(output).parent.is_dir()
    with _temporary(_file_path(output), Path.touch):
        pass
    if not existed:
        with contextlib.suppress(OSError):
            Path(output).parent.rmdir()


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder for a new index if it is in use.

    Raises:
        TourError: if the folder contains an index and `overwrite` is false, or contains anything but an index.
    """
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        if names and not {"index", "docid"} <= names:
            raise TourError(f"{folder} contains files that are not an index; choose another --index.")
        if names and not overwrite:
            raise TourError(f"{folder} already contains an index; add --overwrite to replace it.")
    elif folder.exists():
        raise TourError(f"{folder} is a file; choose another --index.")


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_home() -> Path:
    """The folder for cached files, which can be deleted: `TOUR_PYSERINI_CACHE`, or a folder in the user's cache."""
    if home := os.environ.get("TOUR_PYSERINI_CACHE"):
        return Path(home)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tour_pyserini"


def score_cache() -> Path:
    """The file in which labels are kept between runs, if no other is named."""
    return cache_home() / "scores.sqlite"


def query_cache() -> Path:
    """The file that keeps query vectors between runs."""
    return cache_home() / "queries.sqlite"


def unwritable(path: str | os.PathLike[str], error: Exception) -> TourError:
    """Make the error for an output that cannot be written."""
    reason = getattr(error, "strerror", None) or full_disk(error) or error
    return TourError(f"cannot write {os.fspath(path)}: {reason}; choose another path.")


def full_disk(error: BaseException | None) -> str | None:
    """The system's reason if an error, or the error that caused it, means a full disk; libraries quote the reason."""
    while error is not None:
        for code in _FULL:
            if getattr(error, "errno", None) == code or os.strerror(code) in str(error):
                return os.strerror(code)
        error = error.__cause__ or error.__context__
    return None


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
        return stored["value"] if stored["state"] == list(state) and isinstance(stored["value"], str) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # never computed, or the file is damaged
        return None


def write_memo(what: str, name: str, state: State, value: str) -> None:
    """Keep a result for `read_memo`; an older result for the same name is replaced."""
    with contextlib.suppress(TourError, OSError), atomic_write(_path(what, name)) as file:
        json.dump({"state": list(state), "value": value}, file)


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


@lru_cache(maxsize=1024)
def _hash(path: Path, *state: int) -> str:
    if state[0] < _SMALL:
        return sha256(path)
    if known := read_memo("sha256", str(path), state):
        return known
    started = time.time_ns()
    value = sha256(path)
    if max(state[2:]) < started - _RECENT and file_state(path) == state:  # for some time before, and still
        write_memo("sha256", str(path), state, value)
    return value


def file_state(path: str | os.PathLike[str]) -> tuple[int, int, int, int]:
    """Size, inode and the two times of change of a file: if they are the same, its content counts as unchanged."""
    status = os.stat(path)
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _path(what: str, name: str) -> Path:
    return cache_home() / "memos" / f"{hashlib.sha256(f'{what}:{name}'.encode()).hexdigest()[:32]}.json"
