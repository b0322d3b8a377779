"""Read and write scores by key in a score file that several processes and threads may share."""

import logging
import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.score_file import connect, score_checksum
from tour_pyserini.support.kept_file import (
    UNKNOWN_MODEL,
    Model,
    inode,
    is_damage,
    move_damaged,
    size_on_disk,
    telling_damage,
    transaction,
    use_model,
)

log = logging.getLogger(__name__)

MAX_PARAMETERS = 900  # per statement; the smallest limit of SQLite is 999

Result = TypeVar("Result")


class StoreStats(NamedTuple):
    """The number of scores that are kept, and their size."""

    scores: int
    size: int
    """Bytes on disk."""


class ScoreStore:
    """An SQLite file of raw logits by key, safe to share between processes and threads.

    Each `put` is one transaction in write-ahead mode: if a process is killed, each of its puts is stored completely or
    not at all. A damaged file is renamed to `NAME.damaged-N` and replaced by a new, empty one.

    Example:
        >>> with ScoreStore("scores.sqlite") as store:  # doctest: +SKIP
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
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._connect()
        except (OSError, sqlite3.Error) as error:
            raise TourError(f"the score cache {self.path} cannot be opened ({error}); give another path.") from error
        if model is not None:
            self._write(lambda *_: None, what="the use of the model")

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """Read the scores of those keys that are stored; a damaged row is deleted and counts as not stored."""
        keys = sorted(keys)  # neighbours are on the same page of the file: 1.5 times as fast
        scores: dict[bytes, float] = {}
        without_model: list[bytes] = []
        damaged: list[tuple[bytes, Any]] = []
        for part in _parts(keys):
            rows = self._read(
                f"SELECT key, logit, model, checksum FROM scores WHERE key IN ({_question_marks(part)})", part
            )
            for key, logit, model, checksum in rows:
                if not _is_finite(logit) or checksum != score_checksum(key, logit, model):
                    damaged.append((key, checksum))
                    continue
                scores[key] = logit
                if model == UNKNOWN_MODEL:
                    without_model.append(key)
        if damaged:
            self._delete_damaged(damaged)
        if without_model and self._model is not None:
            self._record_model(without_model)
        return scores

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store all of the scores or none; a key that is already stored keeps its score.

        If they cannot be written (no space left), the caller can still use them: that is a warning, not an error, and
        it is given once.
        """

        def write(connection: sqlite3.Connection, model: int) -> None:
            rows = ((key, logit, model, score_checksum(key, logit, model)) for key, logit in scores.items())
            connection.executemany("INSERT OR IGNORE INTO scores VALUES (?, ?, ?, ?)", rows)

        self._write(write, what=f"{len(scores)} scores")

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        """The keys that this process is to score: all of them, because processes that share a file do not wait."""
        return set(keys)

    def release(self, keys: Sequence[bytes]) -> None:
        """Nothing to do: nothing was claimed."""

    def stats(self) -> StoreStats:
        """Count the scores and the bytes of the file."""
        ((count,),) = self._read("SELECT count(*) FROM scores")
        return StoreStats(count, size_on_disk(self.path))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "ScoreStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _record_model(self, keys: Sequence[bytes]) -> None:
        """Assign scores of layout 1 to this model; they are its scores, because a key includes the fingerprint."""

        def write(connection: sqlite3.Connection, model: int) -> None:
            for part in _parts(keys):
                connection.execute(
                    f"UPDATE scores SET model = {model}, checksum = score_checksum(key, logit, {model}) "
                    f"WHERE key IN ({_question_marks(part)})",
                    part,
                )

        self._write(write, what=f"the model of {len(keys)} scores")

    def _delete_damaged(self, rows: Sequence[tuple[bytes, Any]]) -> None:
        """Delete rows with a wrong checksum, unless another process has replaced them."""
        log.warning("%d damaged scores in the score cache %s are computed again", len(rows), self.path)
        self._write(
            lambda connection, _: connection.executemany("DELETE FROM scores WHERE key = ? AND checksum IS ?", rows),
            what="the deletion of damaged scores",
        )

    def _read(self, query: str, values: Sequence[bytes] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._replacing_damaged_file(lambda connection: connection.execute(query, values).fetchall())
        except sqlite3.Error as error:
            raise TourError(f"the score cache {self.path} cannot be read ({error}); give another path.") from error

    def _write(self, write: Callable[[sqlite3.Connection, int], object], *, what: str) -> None:
        """Write in one transaction. The model's number is looked up each time: the file may have been replaced."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                write(connection, use_model(connection, self._model))

        try:
            self._replacing_damaged_file(work)
        except sqlite3.Error as error:
            if not self._warned:
                log.warning("%s could not be written to the score cache %s: %s", what, self.path, error)
            self._warned = True

    def _replacing_damaged_file(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Call `work`; if the file is damaged, replace the file and call it again."""
        with self._lock:
            try:
                with telling_damage():
                    return work(self._connection)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._connection.close()
                move_damaged(self.path, self._inode, error, noun="score cache")
                self._connection = self._connect()
                return work(self._connection)

    def _connect(self) -> sqlite3.Connection:
        inode_before = inode(self.path)
        try:
            connection = connect(self.path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            move_damaged(self.path, inode_before, error, noun="score cache")
            connection = connect(self.path)
        self._inode = inode(self.path)
        return connection


def _parts(keys: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [keys[start : start + MAX_PARAMETERS] for start in range(0, len(keys), MAX_PARAMETERS)]


def _question_marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
