"""A folder of unfinished work that can be continued after an interruption."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write, remove_folder, unwritable

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = "lock"
"""Name of the file in a folder of unfinished work that the process at work has locked."""


class PartialFolder(ABC):
    """The documents finished so far, in append-only files.

    If the folder is opened again with the same settings, work continues after the last complete chunk. Other settings
    are refused, unless the folder has no document yet. While it is open, no other process can open it. If it is closed
    without a document, it is deleted.

    Args:
        folder: created if it does not exist.
        settings: everything that the work depends on; those named in `SIZES` must be present.
    """

    FILES: ClassVar[tuple[str, ...]]
    """Names of the files besides `docid`."""
    SIZES: ClassVar[tuple[str, ...]]
    """Names of the settings (whole numbers) that define the size of a chunk."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._lock = lock_folder(folder)
        self._docids = open(folder / "docid", "a+b")  # noqa: SIM115 (closed by close)
        self._files = {name: open(folder / name, "a+b") for name in self.FILES}  # noqa: SIM115 (closed by close)
        try:
            self.done = self._resume(settings)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._docids.closed:
            return
        # An interrupt may have come between the writing of the first chunk and the counting of it.
        if self.done or self._keep_whole_chunks(**self._sizes):
            self.close()
        else:
            self.discard()

    @abstractmethod
    def _keep_whole_chunks(self, **sizes: int) -> int:
        """Cut off an incomplete chunk at the end of the files; give the number of documents that stay."""

    def close(self) -> None:
        """Close the files, so that another process can open the folder."""
        for file in (self._docids, *self._files.values()):
            file.close()
        self._lock.release()

    def discard(self) -> None:
        """Delete the folder."""
        remove_folder(self.folder)
        self.close()  # last: another process may create a new folder of the same name meanwhile

    def _resume(self, settings: Mapping[str, Any]) -> int:
        """Check that the folder has these settings, and give the number of its documents."""
        path = self.folder / "settings.json"
        now = json.loads(json.dumps(settings))
        try:
            before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else now
            self._sizes = {name: int(before[name]) for name in self.SIZES}
            if min(self._sizes.values()) < 1:
                raise ValueError("a size below 1")
            done = self._keep_whole_chunks(**self._sizes)
        except Exception as error:  # damaged files raise errors of many types
            raise TourError(
                f"the unfinished work in {self.folder} is damaged ({first_line(error):.200}); "
                "delete the folder to start again."
            ) from error
        if not done or not path.exists():
            self._sizes = {name: int(now[name]) for name in self.SIZES}
            with atomic_write(path) as file:
                json.dump(now, file, indent=2)
        else:
            refuse_other_settings(self.folder, before, now)
        return done


def refuse_other_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a TourError if the work in a folder was started with different settings."""
    if differing := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
        changes = "; ".join(f"{name} was {before.get(name)!r}, now {now.get(name)!r}" for name in differing)
        raise TourError(
            f"{folder} was started with other settings ({changes}); "
            "use the old settings, or delete the folder to start again."
        )


def whole_lines(file: IO[bytes]) -> list[bytes]:
    """Read the lines of a file, without an incomplete last line."""
    file.seek(0)
    return [line for line in file if line.endswith(b"\n")]


def write_through(file: IO[bytes], content: bytes) -> None:
    """Append to a file, and return when the content is on the disk.

    Raises:
        TourError: if the disk is full; the file may then end with a part of the content.
    """
    rest = memoryview(content)
    try:
        while rest:
            # Not through the buffer of the file, which would try to write the rest again when it is closed.
            rest = rest[os.write(file.fileno(), rest) :]
        os.fsync(file.fileno())
    except OSError as error:
        raise unwritable(file.name, error) from error


def lock_folder(folder: Path) -> "BaseFileLock":
    """Create a folder if it does not exist, and lock it until `release` is called or this process ends."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        if not (folder / LOCK).exists():  # whoever held it has finished and removed the folder meanwhile
            return lock_folder(folder)
        raise TourError(f"another process is using {folder}; wait until it has finished.") from None
    except OSError as error:
        raise TourError(f"cannot write {folder}: {error.strerror}; choose another folder.") from error
    return lock
