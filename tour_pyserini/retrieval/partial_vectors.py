"""Vectors that survive an interruption."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.files import written_whole


class PartialVectors:
    """The docids and vectors of the documents encoded so far, in a folder, chunk by chunk.

    Opened again with the same settings it goes on after the last whole chunk; with others it refuses, unless there is
    no document yet. While it is open no other process can open it. Left without a document, it leaves no trace.

    Args:
        folder: made if it is not there.
        settings: everything the vectors depend on; `documents`, `dimension` and `chunk` (documents per chunk)
            are read here.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._dimension: int = settings["dimension"]
        self._docids = _locked(folder)
        self._vectors = open(folder / "vectors", "a+b")  # noqa: SIM115 (closed by close)
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

    def append(self, docids: Sequence[str], vectors: np.ndarray) -> None:
        """Add a chunk: one docid for each row of float32 [n, d]. It is on the disk when this returns."""
        if vectors.shape != (len(docids), self._dimension) or vectors.dtype != np.float32:
            raise ValueError(f"{vectors.dtype} {vectors.shape} is no chunk of {len(docids)} vectors")
        # The docids last: a vector counts only once its docid is there.
        _write(self._vectors, np.ascontiguousarray(vectors).tobytes())
        _write(self._docids, "".join(f"{docid}\n" for docid in docids).encode())
        self.done += len(docids)

    def vectors(self) -> np.ndarray:
        """All vectors so far, float32 [done, d], memory-mapped."""
        return np.memmap(self.folder / "vectors", dtype=np.float32, mode="r", shape=(self.done, self._dimension))

    def close(self) -> None:
        """Let another process go on from here."""
        self._docids.close()
        self._vectors.close()

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
            sizes = {name: int(before[name]) for name in ("dimension", "chunk", "documents")}
        except (OSError, ValueError, KeyError, TypeError):
            raise TourError(f"{path} cannot be read; delete the folder {self.folder} to start again.") from None
        done = self._keep_whole_chunks(**sizes)
        if not done or not path.exists():
            with written_whole(path) as file:
                json.dump(now, file, indent=2)
        elif differing := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
            changes = "; ".join(f"{name} was {before.get(name)!r}, now {now.get(name)!r}" for name in differing)
            raise TourError(
                f"{self.folder} was begun with other settings ({changes}); "
                "use those again, or delete that folder to start again."
            )
        return done

    def _keep_whole_chunks(self, *, dimension: int, chunk: int, documents: int) -> int:
        """Cut off what an interruption left of a chunk; the number of documents that stay."""
        row = 4 * dimension
        self._docids.seek(0)
        lengths = [len(line) for line in self._docids if line.endswith(b"\n")]
        done = min(len(lengths), os.fstat(self._vectors.fileno()).st_size // row)
        if done != documents:
            done -= done % chunk
        self._docids.truncate(sum(lengths[:done]))
        self._vectors.truncate(done * row)
        return done


def _locked(folder: Path) -> IO[bytes]:
    """The folder's file of docids, open and locked; both are made if they are not there."""
    path = folder / "docid"
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
    return _locked(folder)


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _write(file: Any, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
