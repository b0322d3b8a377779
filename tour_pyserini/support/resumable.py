"""A folder of unfinished work that survives an interruption."""

import fcntl
import json
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import written_whole


class PartialFolder(ABC):
    """The documents finished so far, in append-only files.

    Opened again with the same settings it goes on after the last whole chunk; with others it refuses, unless there is
    no document yet. While it is open no other process can open it. Left without a document, it leaves no trace.

    Args:
        folder: made if it is not there.
        settings: everything the work depends on; those named in `SIZES` are read here.
    """

    FILES: ClassVar[tuple[str, ...]]
    """The files beside `docid`."""
    SIZES: ClassVar[tuple[str, ...]]
    """Settings, whole numbers, that tell what a whole chunk is."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._docids = locked(folder)
        self._files = {name: open(folder / name, "a+b") for name in self.FILES}  # noqa: SIM115 (closed by close)
        try:
            self.done = self._resume(settings)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.done or self._docids.closed:
            self.close()
        else:
            self.discard()

    @abstractmethod
    def _keep_whole_chunks(self, **sizes: int) -> int:
        """Cut off what an interruption left of a chunk; the number of documents that stay."""

    def close(self) -> None:
        """Let another process go on from here."""
        for file in (self._docids, *self._files.values()):
            file.close()

    def discard(self) -> None:
        """Remove the folder."""
        # Moved away first, and unlocked last: what another process then makes in its place is not removed.
        gone = tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}.")
        self.folder.rename(gone)
        shutil.rmtree(gone)
        self.close()

    def _resume(self, settings: Mapping[str, Any]) -> int:
        """Go on from what is there if it was made with these settings; the number of its documents."""
        path = self.folder / "settings.json"
        now = json.loads(json.dumps(settings))
        try:
            before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else now
            sizes = {name: int(before[name]) for name in self.SIZES}
        except (OSError, ValueError, KeyError, TypeError):
            raise TourError(f"{path} cannot be read; delete the folder {self.folder} to start again.") from None
        done = self._keep_whole_chunks(**sizes)
        if not done or not path.exists():
            with written_whole(path) as file:
                json.dump(now, file, indent=2)
        else:
            refuse_other_settings(self.folder, before, now)
        return done


def refuse_other_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a TourError if work in a folder was begun with other settings than those of now."""
    if differing := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
        changes = "; ".join(f"{name} was {before.get(name)!r}, now {now.get(name)!r}" for name in differing)
        raise TourError(
            f"{folder} was begun with other settings ({changes}); "
            "use those again, or delete that folder to start again."
        )


def whole_lines(file: IO[bytes]) -> list[bytes]:
    """The lines of a file that have their end."""
    file.seek(0)
    return [line for line in file if line.endswith(b"\n")]


def write_through(file: Any, content: bytes) -> None:
    """Append to a file; it is on the disk when this returns."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def locked(folder: Path, name: str = "docid") -> IO[bytes]:
    """A file in a folder, open and locked; both are made if they are not there."""
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+b")  # noqa: SIM115 (closed by close)
    except OSError as error:
        raise TourError(f"cannot write {folder}: {error.strerror}; choose another place.") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise TourError(f"another process is at work in {folder}; wait for it to end.") from None
    if _is_at(path, file):
        return file
    file.close()  # the process that held the lock has finished and removed the folder
    return locked(folder, name)


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
