"""A folder that appears whole, or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tour_pyserini.errors import TourError


def check_place(folder: Path, *, overwrite: bool) -> None:
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
        TourError: if at that time `check_place` refuses the place.
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
        check_place(folder, overwrite=overwrite)
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
