"""Write files and folders atomically, check output paths, and compute checksums."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tour_pyserini.errors import TourError


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Write a file that appears only when it is complete: if the block fails, `path` is not changed.

    Example:
        with atomic_write("runs/a.trec") as run:
            run.write("q1 Q0 d1 1 0.5 tag")
    """
    with atomic_replace(path) as partial, open(partial, mode, encoding=None if "b" in mode else "utf-8") as file:
        yield file
        try:
            file.flush()
        except OSError as error:
            raise _unwritable(path, error) from error


@contextmanager
def atomic_replace(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a temporary file that replaces `path` when the block ends without an error."""
    # A symbolic link stays a link; the file it points to is replaced.
    path = Path(os.path.realpath(path))
    try:
        if path.exists() and not path.is_file():
            raise TourError(f"cannot write {path}: it is a folder or a device; give the name of a file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    except OSError as error:
        raise _unwritable(path, error) from error
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        partial.chmod(0o666 & ~_umask())
        try:
            partial.replace(path)
        except OSError as error:
            raise _unwritable(path, error) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give the path of a temporary folder that becomes `folder` when the block ends; it is deleted if the block fails.

    Raises:
        TourError: if `check_folder` refuses `folder` at the end of the block.
    """
    folder = folder.resolve()  # a symbolic link stays a link
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise _unwritable(folder, error) from error
    replaced = partial.with_name(f"{partial.name}.replaced")
    try:
        yield partial
        partial.chmod(0o755)
        check_folder(folder, overwrite=overwrite)
        if overwrite and folder.exists():
            folder.rename(replaced)
        _rename(partial, folder)
    finally:
        if replaced.exists() and not folder.exists():
            replaced.rename(folder)
        for leftover in (partial, replaced):
            shutil.rmtree(leftover, ignore_errors=True)


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


class _Tried(Exception):
    """Leaves the block of `atomic_replace` without writing the file."""


def _unwritable(path: str | os.PathLike[str], error: OSError) -> TourError:
    return TourError(f"cannot write {os.fspath(path)}: {error.strerror or error}; choose another path.")


def _rename(folder: Path, new: Path) -> None:
    try:
        folder.rename(new)  # fails if another process has just created a folder with this name and files in it
    except OSError as error:
        raise _unwritable(new, error) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
