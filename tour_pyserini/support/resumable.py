"""A folder of unfinished work that can be continued after an interruption."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write, remove_folder, unwritable

if TYPE_CHECKING:
    from filelock import BaseFileLock

_LOCK = "lock"
"""The file that the process at work has locked."""
_CHUNKS = "chunks"
"""The file that has, for each chunk, the number of documents and the sizes of the other files at its end."""


class PartialFolder:
    """The documents finished so far: their docids and arrays, in append-only files that are written chunk by chunk.

    If the folder is opened again with the same settings, work continues after the last complete chunk. Other settings
    are refused, unless the folder has no document yet. While it is open, no other process can open it. If it is closed
    without a document, it is deleted.

    Args:
        folder: created if it does not exist.
        settings: everything that the work depends on.
        names: names of the arrays, each of which is a file.

    Attributes:
        done: number of documents so far.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], *names: str) -> None:
        self.folder = folder
        self._lock = lock_folder(folder)
        self._files = {name: open(folder / name, "a+b") for name in (*names, "docid", _CHUNKS)}  # noqa: SIM115
        try:
            self.done = self._resume(settings)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._files[_CHUNKS].closed:
            return
        # An interrupt may have come between the writing of the first chunk and the counting of it.
        if self.done or self._keep_whole_chunks():
            self.close()
        else:
            self.discard()

    def append(self, docids: Sequence[str], **arrays: np.ndarray) -> None:
        """Add a chunk of documents with an array for each name; they are on disk when this returns."""
        for name, array in arrays.items():
            _write_through(self._files[name], np.ascontiguousarray(array).tobytes())
        _write_through(self._files["docid"], "".join(f"{docid}\n" for docid in docids).encode())
        # What the other files have beyond the last line of this one is incomplete.
        chunk = {"documents": self.done + len(docids), **self._sizes()}
        _write_through(self._files[_CHUNKS], f"{json.dumps(chunk)}\n".encode())
        self.done += len(docids)

    def array(self, name: str, dtype: Any, *shape: int) -> Any:
        """All rows of an array so far, memory-mapped: [n, *shape]."""
        return np.memmap(self.folder / name, dtype=dtype, mode="r").reshape(-1, *shape)

    def close(self) -> None:
        """Close the files, so that another process can open the folder."""
        for file in self._files.values():
            file.close()
        self._lock.release()

    def discard(self) -> None:
        """Delete the folder."""
        remove_folder(self.folder)
        self.close()  # last: another process may create a new folder of the same name meanwhile

    def _sizes(self) -> dict[str, int]:
        return {name: os.fstat(file.fileno()).st_size for name, file in self._files.items() if name != _CHUNKS}

    def _keep_whole_chunks(self) -> int:
        """Cut off an incomplete chunk at the end of the files; give the number of documents that stay."""
        file, sizes = self._files[_CHUNKS], self._sizes()
        file.seek(0)
        lines = [line for line in file if line.endswith(b"\n")]
        chunks = [json.loads(line) for line in lines]
        while chunks and any(chunks[-1][name] > size for name, size in sizes.items()):
            chunks.pop()
        file.truncate(sum(map(len, lines[: len(chunks)])))
        for name in sizes:
            self._files[name].truncate(chunks[-1][name] if chunks else 0)
        return int(chunks[-1]["documents"]) if chunks else 0

    def _resume(self, settings: Mapping[str, Any]) -> int:
        """Check that the folder has these settings, and give the number of its documents."""
        path, now = self.folder / "settings.json", json.loads(json.dumps(settings))
        try:
            before = dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else now
            done = self._keep_whole_chunks()
        except Exception as error:  # damaged files raise errors of many types
            raise TourError(
                f"the unfinished work in {self.folder} is damaged ({first_line(error):.200}); "
                "delete the folder to start again."
            ) from error
        if done:
            refuse_other_settings(self.folder, before, now)
        else:
            with atomic_write(path) as file:
                json.dump(now, file, indent=2)
        return done


def refuse_other_settings(work: object, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a TourError if work, such as that in a folder, was started with different settings."""
    if differing := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
        changes = "; ".join(f"{name} was {before.get(name)!r}, now {now.get(name)!r}" for name in differing)
        raise TourError(f"{work} was started with other settings ({changes}); use those, or delete it to start again.")


def _write_through(file: IO[bytes], content: bytes) -> None:
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
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        if not (folder / _LOCK).exists():  # whoever held it has finished and removed the folder meanwhile
            return lock_folder(folder)
        raise TourError(f"another process is using {folder}; wait until it has finished.") from None
    except OSError as error:
        raise TourError(f"cannot write {folder}: {error.strerror}; choose another folder.") from error
    return lock
