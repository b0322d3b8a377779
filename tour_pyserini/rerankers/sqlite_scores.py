"""Scores in an SQLite file that several processes and threads may share.

The table `scores` holds a raw logit, the number of a model and a checksum for each key of 16 bytes.
"""

import logging
import math
import os
import sqlite3
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tour_pyserini.errors import TourError
from tour_pyserini.support.sqlite_cache import (
    Layout,
    Model,
    connect,
    inode,
    is_damage,
    move_damaged,
    read_keys,
    size_on_disk,
    transaction,
    use_model,
)

log = logging.getLogger(__name__)

KEY_BYTES = 16
SCORES = Layout(
    noun="score cache",
    table="scores",
    columns="(key BLOB PRIMARY KEY, logit REAL NOT NULL, model INTEGER NOT NULL DEFAULT 0, "
    "checksum INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
    owner=0x546F7552,  # "TouR"
    version=3,
    write_ahead=True,
)

_PACKED = struct.Struct("<dq")

Result = TypeVar("Result")


class StoreStats(NamedTuple):
    """The number of stored scores, and their size."""

    scores: int
    size: int
    """Bytes on disk."""


def score_checksum(key: bytes, logit: float, model: int) -> int:
    """A checksum of a row."""
    return zlib.crc32(key + _PACKED.pack(logit + 0.0, model))  # SQLite stores -0.0 as 0.0


def is_intact(key: Any, logit: Any, model: Any, checksum: Any) -> bool:
    """Whether a row is as it was written: a damaged file may hold anything."""
    typed = isinstance(key, bytes) and isinstance(logit, float) and isinstance(model, int)
    return typed and math.isfinite(logit) and checksum == score_checksum(key, logit, model)


class SqliteScores:
    """Raw logits by key in an SQLite file, safe to share between processes and threads.

    Each `put` is one transaction in write-ahead mode: if a process is killed, each of its puts is stored completely or
    not at all. A damaged file is renamed to `NAME.damaged-N` and replaced by a new, empty one.

    Example:
        >>> with SqliteScores("scores.sqlite") as store:  # doctest: +SKIP
        ...     store.put({b"key": 1.5})
        ...     store.get([b"key", b"other"])
        {b'key': 1.5}
    """

    def __init__(self, path: str | os.PathLike[str], model: Model | None = None) -> None:
        """Open the file for the scores of one model; a missing file is created."""
        self.path = Path(path)
        self._model = model
        self._lock = threading.Lock()
        self._warned = False
        self._connection: sqlite3.Connection | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._run(lambda _: None)
        except (OSError, sqlite3.Error) as error:
            raise TourError(f"the score cache {self.path} cannot be opened ({error}); give another path.") from error
        if model is not None:
            self._write(lambda *_: None, what="the use of the model")

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """Read the scores of those keys that are stored; a damaged row is deleted and counts as not stored."""
        wanted = sorted(keys)  # neighbours are on the same page of the file: 1.5 times as fast
        rows = self._read(lambda db: list(read_keys(db, "key, logit, model, checksum", "scores", wanted)))
        scores: dict[bytes, float] = {}
        damaged: list[tuple[bytes, Any]] = []
        for row in rows:
            if is_intact(*row):
                scores[row[0]] = row[1]
            else:
                damaged.append((row[0], row[3]))
        if damaged:
            log.warning("%d damaged scores in the score cache %s are computed again", len(damaged), self.path)
            delete = "DELETE FROM scores WHERE key = ? AND checksum IS ?"  # unless another process has replaced them
            self._write(lambda db, _: db.executemany(delete, damaged), what="the deletion of damaged scores")
        return scores

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store all of the scores or none; a key that is already stored keeps its score.

        If they cannot be written (no space left), the caller can still use them: that is a warning, not an error, and
        it is given once.
        """

        def insert(connection: sqlite3.Connection, model: int) -> None:
            rows = ((key, logit, model, score_checksum(key, logit, model)) for key, logit in scores.items())
            connection.executemany("INSERT OR IGNORE INTO scores VALUES (?, ?, ?, ?)", rows)

        self._write(insert, what=f"{len(scores)} scores")

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        """The keys that this process is to score: all of them, because processes that share a file do not wait."""
        return set(keys)

    def release(self, keys: Sequence[bytes]) -> None:
        """Nothing to do: nothing was claimed."""

    def stats(self) -> StoreStats:
        """Count the scores and the bytes of the file."""
        count = self._read(lambda connection: connection.execute("SELECT count(*) FROM scores").fetchone()[0])
        return StoreStats(count, size_on_disk(self.path))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def __enter__(self) -> "SqliteScores":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, read: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            return self._run(read)
        except sqlite3.Error as error:
            raise TourError(f"the score cache {self.path} cannot be read ({error}); give another path.") from error

    def _write(self, write: Callable[[sqlite3.Connection, int], object], *, what: str) -> None:
        """Write in one transaction. The model's number is looked up each time: the file may have been replaced."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                write(connection, use_model(connection, self._model))

        try:
            self._run(work)
        except sqlite3.Error as error:
            if not self._warned:
                log.warning("%s could not be written to the score cache %s: %s", what, self.path, error)
            self._warned = True

    def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Call `work` with the connection; if the file is damaged, replace the file and call it again."""
        with self._lock:
            try:
                return work(self._connect())
            except Exception as error:
                if not is_damage(error):
                    raise
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                move_damaged(self.path, self._inode, error, noun=SCORES.noun)
            return work(self._connect())

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._inode = inode(self.path)
            self._connection = connect(self.path, SCORES)
            self._inode = inode(self.path)
        return self._connection
