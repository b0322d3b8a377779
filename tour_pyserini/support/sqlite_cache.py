"""SQLite files that keep computed rows between runs: reading, writing, damage, whose the rows are, and pruning.

Each row belongs to a model: the table `models` holds the fingerprint, the name and the first and last use of each.
Model 0 stands for rows that were stored without a model.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from tour_pyserini.errors import TourError

log = logging.getLogger(__name__)

UNKNOWN_MODEL = 0
UNKNOWN = "unknown"
"""The name under which users choose rows that were stored without a model."""

_LOCK_TIMEOUT = 60.0  # seconds to wait for another process
_MAX_PARAMETERS = 900  # per statement; the smallest limit of SQLite is 999
_SECONDS_PER_DAY = 86_400
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

Result = TypeVar("Result")


class Model(NamedTuple):
    """What rows were computed by: the fingerprint identifies it, the name is for people."""

    fingerprint: str
    name: str


class ModelUse(NamedTuple):
    """The number of stored rows of a model, and when the model was first and last used (seconds since 1970).

    Rows that were stored without a model have an empty fingerprint and name.
    """

    number: int
    fingerprint: str
    name: str
    first_used: int
    last_used: int
    rows: int

    def is_named(self, model: str) -> bool:
        """Whether a user's word means this model: its name, the beginning of its fingerprint, or "unknown"."""
        if self.number == UNKNOWN_MODEL:
            return model == UNKNOWN
        return self.name == model or (bool(model) and self.fingerprint.startswith(model))


class SqliteCache:
    """Rows by key in a file, safe to share between processes and threads. Each subclass is a kind of file.

    Each write is one transaction: if a process is killed, each of its writes is stored completely or not at all.

    Args:
        path: the file; a missing one is created.
        model: what the rows that are written were computed by.
        must_exist: refuse a missing file instead of creating it.

    Raises:
        TourError: when the file is damaged, of another program or of another version of the layout, or cannot be
            opened; by any method.
    """

    noun: ClassVar[str]
    """What such a file is called in messages, such as "score cache"."""
    rows: ClassVar[str]
    """The table of rows, which is also what they are called, such as "scores"."""
    columns: ClassVar[str]
    """Their definitions in SQL: `key` is the first, and one of them is `model`."""
    owner: ClassVar[int]
    """The application id, by which files of other programs are recognised."""
    version: ClassVar[int]
    """The version of the tables."""
    write_ahead: ClassVar[bool]
    """Whether writers do not disturb readers."""

    @staticmethod
    def is_intact(*row: Any) -> bool:
        """Whether a row is as it was written; a damaged file may hold anything."""
        raise NotImplementedError

    def __init__(self, path: str | os.PathLike[str], model: Model | None = None, *, must_exist: bool = False) -> None:
        self.path = path = Path(path)
        self.name = str(path)
        self._model = model
        self._lock = threading.Lock()
        self._warned = False
        if must_exist and not path.is_file():
            raise TourError(f"the {self.noun} {path} does not exist; give the path of an existing one.")
        with self._one_sentence():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(self._connection)
            except BaseException:
                self._connection.close()
                raise
        if self._run(self._is_unrecorded):
            self.write_rows(lambda _: ())

    def read_rows(self, keys: Iterable[bytes]) -> list[tuple[Any, ...]]:
        """The rows of those keys that are stored; a damaged row is deleted and counts as not stored."""
        wanted = sorted(keys)  # neighbours are on the same page of the file: 1.5 times as fast

        def select(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = []
            for start in range(0, len(wanted), _MAX_PARAMETERS):
                part = wanted[start : start + _MAX_PARAMETERS]
                marks = ",".join("?" * len(part))
                rows += connection.execute(f"SELECT * FROM {self.rows} WHERE key IN ({marks})", part)
            return rows

        rows = self._run(select)
        if damaged := [(row[0],) for row in rows if not self.is_intact(*row)]:
            log.warning("%d damaged %s in %s are computed again", len(damaged), self.rows, self.path)
            delete = f"DELETE FROM {self.rows} WHERE key = ?"
            with contextlib.suppress(TourError):  # a full disk: they stay damaged
                self._run(lambda connection: connection.executemany(delete, damaged))
        return [row for row in rows if self.is_intact(*row)]

    def write_rows(self, make_rows: Callable[[int], Iterable[tuple[Any, ...]]]) -> None:
        """Store all rows or none, made from the number of the model; a key that is already stored keeps its row.

        If they cannot be written (no space left), the caller can still use them: that is a warning, not an error, and
        it is given once.
        """

        def insert(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                rows = list(make_rows(_use_model(connection, self._model)))
                if rows:
                    marks = ",".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT OR IGNORE INTO {self.rows} VALUES ({marks})", rows)

        try:
            self._run(insert)
        except TourError as error:
            if not self._warned:
                log.warning("%s could not be written: %s", self.rows, error)
            self._warned = True

    def all_rows(self) -> Iterator[tuple[Any, ...]]:
        """The fingerprint and the name of the model, and the columns, of every row, sorted by key."""
        query = (
            f"SELECT ifnull(fingerprint, ''), ifnull(name, ''), {self.rows}.* FROM {self.rows} "
            "LEFT JOIN models ON id = model ORDER BY key"
        )
        for row in self._run(lambda connection: connection.execute(query)):
            with self._one_sentence():
                if not self.is_intact(*row[2:]):
                    raise sqlite3.DatabaseError("a row has a wrong checksum")
            yield row

    def count(self) -> int:
        """The number of rows."""
        return self._run(lambda connection: connection.execute(f"SELECT count(*) FROM {self.rows}").fetchone()[0])

    def size(self) -> int:
        """Bytes of the file and of its write-ahead log."""
        return sum(file.stat().st_size for file in (self.path, Path(f"{self.path}-wal")) if file.exists())

    def models(self) -> list[ModelUse]:
        """Count the rows of each model, in order of first use."""
        query = (
            "SELECT id, fingerprint, name, first_used, last_used, ifnull(count, 0) FROM models LEFT JOIN "
            f"(SELECT model, count(*) AS count FROM {self.rows} GROUP BY model) ON model = id ORDER BY first_used, id"
        )
        uses = [ModelUse(*row) for row in self._run(lambda connection: connection.execute(query).fetchall())]
        return [use for use in uses if use.number != UNKNOWN_MODEL or use.rows]

    def prune(
        self, *, models: Sequence[str] = (), unused_for: float | None = None, dry_run: bool = False
    ) -> list[ModelUse]:
        """Remove the rows of some models and make the file smaller.

        Args:
            models: names, or beginnings of fingerprints, or "unknown"; none: all models.
            unused_for: only models that were not used for this number of days.
            dry_run: remove nothing.

        Returns:
            The models whose rows were removed, or would be removed.
        """
        chosen = choose_models(self, models, unused_for)

        def remove(connection: sqlite3.Connection) -> None:
            numbers = [(use.number,) for use in chosen]
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(f"DELETE FROM {self.rows} WHERE model = ?", numbers)
                connection.executemany(f"DELETE FROM models WHERE id = ? AND id <> {UNKNOWN_MODEL}", numbers)
            try:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError as error:
                log.warning("the %s were removed, but %s could not be made smaller (%s)", self.rows, self.path, error)

        if chosen and not dry_run:
            self._run(remove)
        return chosen

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_unrecorded(self, connection: sqlite3.Connection) -> bool:
        """Whether today's use of the model is not recorded yet."""
        if self._model is None:
            return False
        find = "SELECT name, last_used FROM models WHERE fingerprint = ?"
        row = connection.execute(find, (self._model.fingerprint,)).fetchone()
        return row is None or row[0] != self._model.name or row[1] < time.time() - _SECONDS_PER_DAY

    def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._lock, self._one_sentence():
            return work(self._connection)

    @contextlib.contextmanager
    def _one_sentence(self) -> Iterator[None]:
        """Say what is wrong with the file, and what to do.

        SQLITE_ERROR means that a table or a column is missing. Python cannot decode what SQLite says about a damaged
        definition, and a damaged length asks for too much memory.
        """
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, MemoryError, OSError) as error:
            problem, advice = "is damaged", "rename or delete it, then run the command again"
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if isinstance(error, OSError) or code not in _DAMAGE:
                problem, advice = "cannot be used", "check its disk, or give another path"
            raise TourError(f"the {self.noun} {self.path} {problem} ({error}); {advice}.") from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check whose file it is; create the tables of a new one."""
        expected = (self.owner, self.version)
        if _owner_and_version(connection) != expected:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                if _owner_and_version(connection) != expected:  # another process may just have created them
                    self._create(connection)
        if self.write_ahead:
            with contextlib.suppress(sqlite3.OperationalError):  # in use: another process enables it
                connection.execute("PRAGMA journal_mode = WAL")
            # A crash of the machine may lose the last writes, but does not damage the file.
            connection.execute("PRAGMA synchronous = NORMAL")

    def _create(self, connection: sqlite3.Connection) -> None:
        """Create the tables of a new file; refuse any other."""
        noun, owner, version = self.noun, self.owner, self.version
        found = _owner_and_version(connection)
        if found[0] == owner:
            raise TourError(
                f"the {noun} {self.path} has layout {found[1]}, but this version reads layout {version}; "
                "delete it, or give another path."
            )
        if found != (0, 0) or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise TourError(f"{self.path} is a database of another program; give another path for the {noun}.")
        connection.execute(f"CREATE TABLE {self.rows} {self.columns}")
        connection.execute(
            "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
            "first_used INTEGER NOT NULL, last_used INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0)"
        )
        now = int(time.time())
        connection.execute("INSERT INTO models VALUES (?, '', '', ?, ?, 0)", (UNKNOWN_MODEL, now, now))
        connection.execute(f"PRAGMA application_id = {owner}")
        connection.execute(f"PRAGMA user_version = {version}")


def choose_models(cache: Any, models: Sequence[str], unused_for: float | None) -> list[ModelUse]:
    """Those of the models of a cache that `prune` means."""
    if not models and unused_for is None:
        raise TourError(
            f"no {cache.rows} were chosen for removal; name models, or say how many days they were not used."
        )
    uses: list[ModelUse] = cache.models()
    for model in models:
        if not any(use.is_named(model) for use in uses):
            raise TourError(f"{cache.name} has no {cache.rows} of a model {model!r}; `stats` lists the models it has.")
    latest = time.time() - unused_for * _SECONDS_PER_DAY if unused_for is not None else float("inf")
    return [use for use in uses if use.last_used <= latest and (not models or any(map(use.is_named, models)))]


def _use_model(connection: sqlite3.Connection, model: Model | None) -> int:
    """Record that a model is used now, and return its number in the file."""
    if model is None:
        return UNKNOWN_MODEL
    now = int(time.time())
    return connection.execute(
        "INSERT INTO models (fingerprint, name, first_used, last_used) VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint) "
        "DO UPDATE SET name = excluded.name, last_used = excluded.last_used RETURNING id",
        (*model, now, now),
    ).fetchone()[0]


def _owner_and_version(connection: sqlite3.Connection) -> tuple[int, int]:
    connection.execute("SELECT 1 FROM sqlite_master")  # reads the definitions of tables, which may be damaged
    owner, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    return owner, version
