"""Scores kept in a file, by key."""

import logging
import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.score_file import (
    NOBODY,
    connect,
    identity,
    is_damage,
    set_aside,
    size_on_disk,
    transaction,
)
from tour_pyserini.rerankers.score_upkeep import Model, registered

logger = logging.getLogger(__name__)

VARIABLES = 900  # per statement; SQLite's smallest limit is 999

Result = TypeVar("Result")


class StoreStats(NamedTuple):
    """What is in a store."""

    path: Path
    scores: int
    size: int
    """Bytes on disk."""


class ScoreStore:
    """An SQLite file of raw logits, safe to share between processes and threads.

    Each `put` is one transaction in write-ahead mode: a process that is killed leaves whole puts behind, and nothing
    else. A damaged file is set aside as `NAME.damaged-N` and a new one takes its place.

    Example:
        >>> with ScoreStore("scores.sqlite") as store:  # doctest: +SKIP
        ...     store.put({b"key": 1.5})
        ...     store.get([b"key", b"other"])
        {b'key': 1.5}
    """

    def __init__(self, path: str | os.PathLike[str], model: Model | None = None) -> None:
        """Open the file, made if need be, for the scores of one model."""
        self.path = Path(path)
        self._model = model
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._opened()
        except (OSError, sqlite3.Error) as error:
            raise TourError(f"the score cache {self.path} cannot be opened ({error}); choose another place.") from error
        if model is not None:
            self._write(lambda *_: None, what="the use of the model")

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """The scores of those keys that are stored."""
        keys = sorted(keys)  # neighbours lie on the same page of the file: 1.5 times as fast
        found: dict[bytes, float] = {}
        orphans: list[bytes] = []
        for start in range(0, len(keys), VARIABLES):
            part = keys[start : start + VARIABLES]
            rows = self._read(f"SELECT key, logit, model FROM scores WHERE key IN ({_places(part)})", part)
            found.update((key, logit) for key, logit, _ in rows if _is_number(logit))
            orphans += [key for key, _, model in rows if model == NOBODY]
        if orphans and self._model is not None:
            self._adopt(orphans)
        return found

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store scores, all or none; a key that is there already keeps its score.

        Scores that cannot be written (no space left) are still good scores: that is a warning, not an error.
        """
        self._write(
            lambda connection, model: connection.executemany(
                "INSERT OR IGNORE INTO scores VALUES (?, ?, ?)", ((*item, model) for item in scores.items())
            ),
            what=f"{len(scores)} scores",
        )

    def stats(self) -> StoreStats:
        """How much is stored."""
        ((count,),) = self._read("SELECT count(*) FROM scores")
        return StoreStats(self.path, count, size_on_disk(self.path))

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "ScoreStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _adopt(self, keys: Sequence[bytes]) -> None:
        """Note whose scores these are: a key is made from the model's fingerprint, so whoever asks for it owns it."""

        def write(connection: sqlite3.Connection, model: int) -> None:
            for start in range(0, len(keys), VARIABLES):
                part = keys[start : start + VARIABLES]
                connection.execute(f"UPDATE scores SET model = {model} WHERE key IN ({_places(part)})", part)

        self._write(write, what=f"the model of {len(keys)} scores")

    def _read(self, query: str, values: Sequence[bytes] = ()) -> list[tuple]:
        try:
            return self._surviving(lambda connection: connection.execute(query, values).fetchall())
        except sqlite3.Error as error:
            raise TourError(f"the score cache {self.path} cannot be read ({error}); choose another place.") from error

    def _write(self, write: Callable[[sqlite3.Connection, int], object], *, what: str) -> None:
        """Write in one transaction. The model's number is looked up each time: the file may have changed."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                write(connection, registered(connection, self._model))

        try:
            self._surviving(work)
        except sqlite3.Error as error:
            logger.warning("%s could not be written to the cache %s: %s", what, self.path, error)

    def _surviving(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do the work, on a new file if this one turns out to be damaged."""
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._connection.close()
                set_aside(self.path, self._identity, error)
                self._connection = self._opened()
                return work(self._connection)

    def _opened(self) -> sqlite3.Connection:
        seen = identity(self.path)
        try:
            connection = connect(self.path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            set_aside(self.path, seen, error)
            connection = connect(self.path)
        self._identity = identity(self.path)
        return connection


def _is_number(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _places(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
