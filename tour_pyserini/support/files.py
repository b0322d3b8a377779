"""Files and folders that appear whole or not at all, and checksums."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tour_pyserini.errors import TourError


@contextmanager
def written_whole(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO]:
    """Open a file that takes `path`'s place when the block ends well, and leaves no trace when it does not.

    Example:
        with written_whole("runs/a.trec") as run:
            run.write("q1 Q0 d1 1 0.5 tag")
    """
    with replaced_whole(path) as partial, open(partial, mode, encoding=None if "b" in mode else "utf-8") as file:
        yield file
        try:
            file.flush()
        except OSError as error:
            raise _unwritable(path, error) from error


@contextmanager
def replaced_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The name of a temporary file that takes `path`'s place when the block ends well."""
    # A link stays one: what it points to is replaced.
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


def check_place(path: str | os.PathLike[str]) -> None:
    """Find out before long work, not after it, that a file can be written here."""
    existed = Path(path).parent.is_dir()
    with contextlib.suppress(_Tried), replaced_whole(path):
        raise _Tried
    if not existed:
        with contextlib.suppress(OSError):
            Path(path).parent.rmdir()


def check_output(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | None]) -> None:
    """Refuse an output that cannot be written, or that is one of the inputs; an input of None was not given."""
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output):
            raise TourError(f"{output} would be written over the input {path}; choose another output.")
    check_place(output)


class _Tried(Exception):
    """Leaves a block whose file is not meant to stay."""


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_home() -> Path:
    """Where what can be made again is kept: `TOUR_PYSERINI_CACHE`, or a folder in the user's cache."""
    if home := os.environ.get("TOUR_PYSERINI_CACHE"):
        return Path(home)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tour_pyserini"


def _unwritable(path: str | os.PathLike[str], error: OSError) -> TourError:
    return TourError(f"cannot write {os.fspath(path)}: {error.strerror or error}; choose another place.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse to put an index where something else is.

    Raises:
        TourError: if the folder holds an index and `overwrite` is off, or holds anything but an index.
    """
    if folder.is_dir():
        inside = {path.name for path in folder.iterdir()}
        if inside and not {"index", "docid"} <= inside:
            raise TourError(f"{folder} holds something other than an index; choose another --index.")
        if inside and not overwrite:
            raise TourError(f"{folder} holds an index already; add --overwrite to replace it.")
    elif folder.exists():
        raise TourError(f"{folder} is a file; choose another --index.")


@contextmanager
def folder_whole(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A temporary folder that takes `folder`'s place when the block ends well, and leaves no trace when it does not.

    Raises:
        TourError: if at that time `check_folder` refuses the place.
    """
    folder = folder.resolve()  # a link stays one
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise TourError(f"cannot write {folder}: {error.strerror or error}; choose another place.") from error
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


def _rename(folder: Path, place: Path) -> None:
    try:
        folder.rename(place)  # fails where another folder with something inside has just appeared
    except OSError as error:
        raise TourError(f"cannot write {place}: {error.strerror}; choose another place.") from error
