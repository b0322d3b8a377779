"""Write files and folders atomically, check output paths, and compute checksums."""

import contextlib
import ctypes
import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tour_pyserini.errors import TourError
from tour_pyserini.support.temporaries import temporary_file, temporary_folder

# The disk, the user's share of it or the largest allowed file is full, or the disk has become read-only.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

MAPPED_FROM = 1 << 28
"""Bytes; larger files of an index are memory-mapped. Smaller ones are read, and so survive a change of the file."""


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Write a file that appears only when it is complete: if the block fails, `path` is not changed.

    Example:
        with atomic_write("runs/a.trec") as run:
            run.write("q1 Q0 d1 1 0.5 tag")
    """
    with atomic_replace(path) as partial:
        output = _Output(partial, path)
        content = io.BufferedWriter(output)
        try:
            with content if "b" in mode else io.TextIOWrapper(content, encoding="utf-8") as file:
                yield file
        except Exception:
            if output.failure:  # torch.save replaces it by an error of its own
                raise output.failure from None
            raise


@contextmanager
def atomic_replace(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a temporary file that replaces `path` when the block ends without an error.

    A new file has the permissions that the user's umask gives it; a file that is replaced keeps its own.
    """
    # A symbolic link stays a link; the file it points to is replaced.
    path = Path(os.path.realpath(path))
    with writing_to(path), contextlib.ExitStack() as stack:
        if os.path.exists(path) and not os.path.isfile(path):
            raise TourError(f"cannot write {path}: it is a folder or a device; give the name of a file.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            before = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
            partial = stack.enter_context(temporary_file(path, mode=0o666 if before is None else 0o600))
        except OSError as error:
            raise unwritable(path, error) from error
        yield partial
        try:
            if before is not None:
                partial.chmod(before)
            partial.replace(path)
        except OSError as error:
            raise unwritable(path, error) from error


@contextmanager
def atomic_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give the path of a temporary folder that becomes `folder` when the block ends; it is deleted if the block fails.

    Raises:
        TourError: if `check_folder` refuses `folder` at the end of the block.
    """
    folder = folder.resolve()  # a symbolic link stays a link
    with writing_to(folder), contextlib.ExitStack() as stack:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            partial = stack.enter_context(temporary_folder(folder))
        except OSError as error:
            raise unwritable(folder, error) from error
        yield partial
        check_folder(folder, overwrite=overwrite)
        try:
            if overwrite and folder.exists():
                partial.chmod(stat.S_IMODE(folder.stat().st_mode))
                _exchange(partial, folder)
            else:
                partial.rename(folder)  # fails if another process has just created a folder of this name with files
        except OSError as error:
            raise unwritable(folder, error) from error


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Turn an error of any library that means a full disk into a TourError that names the output."""
    try:
        yield
    except TourError:
        raise
    except Exception as error:
        if is_full_disk(error):
            raise unwritable(path, error) from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise a TourError if a file cannot be written at this path; called before long work."""
    existed = Path(path).parent.is_dir()
    with contextlib.suppress(_Tried), atomic_replace(path):
        raise _Tried
    if not existed:
        with contextlib.suppress(OSError):
            Path(path).parent.rmdir()


def check_output(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | None]) -> None:
    """Refuse an output path that cannot be written or that is one of the inputs; None stands for an absent input."""
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output):
            raise TourError(f"{output} would overwrite the input {path}; choose another output.")
    check_writable(output)


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


class _Tried(Exception):
    """Leaves the block of `atomic_replace` without writing the file."""


class _Output(io.FileIO):
    """A temporary file whose errors name the output that it becomes."""

    def __init__(self, partial: Path, path: str | os.PathLike[str]) -> None:
        super().__init__(partial, "w")
        self._path = path
        self.failure: TourError | None = None

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            self.failure = unwritable(self._path, error)
            raise self.failure from error


def unwritable(path: str | os.PathLike[str], error: Exception) -> TourError:
    """Make the error for an output that cannot be written."""
    reason = getattr(error, "strerror", None) or _full_disk(error) or error
    return TourError(f"cannot write {os.fspath(path)}: {reason}; choose another path.")


def is_full_disk(error: BaseException) -> bool:
    """Whether an error means that a disk is full."""
    return _full_disk(error) is not None


def _full_disk(error: BaseException | None) -> str | None:
    """The system's reason if an error, or the error that caused it, means a full disk; libraries quote the reason."""
    while error is not None:
        for code in _FULL:
            if getattr(error, "errno", None) == code or os.strerror(code) in str(error):
                return os.strerror(code)
        error = error.__cause__ or error.__context__
    return None


def _exchange(new: Path, old: Path) -> None:
    """Give two folders each other's name in one step, so that one of them always has the name `old`."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename is not None and rename(here, os.fsencode(new), here, os.fsencode(old), exchange) == 0:
        return
    # A system or a file system that cannot do it (macOS, some network disks).
    aside = new.with_name(f"{new.name}.replaced")
    old.rename(aside)
    try:
        new.rename(old)
    except BaseException:
        aside.rename(old)
        raise
    aside.rename(new)
