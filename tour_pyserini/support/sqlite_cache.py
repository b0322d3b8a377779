"""SQLite files that keep computed rows between runs: opening, damage, whose the rows are, and maintenance.

Each row belongs to a model: the table `models` holds the fingerprint, the name and the first and last use of each, and
a checksum of these columns. Model 0 stands for rows that were stored without a model.
"""

import json
import logging
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError

log = logging.getLogger(__name__)

UNKNOWN_MODEL = 0
UNKNOWN = "unknown"
"""The name under which users choose rows that were stored without a model."""
LOCK_TIMEOUT = 60.0  # seconds to wait for another process
MAX_PARAMETERS = 900  # per statement; the smallest limit of SQLite is 999

_COLUMNS = "id, fingerprint, name, first_used, last_used"
_SECONDS_PER_DAY = 86_400
_LAST_SECOND = 253_402_300_800  # of the year 9999


class Model(NamedTuple):
    """What rows were computed by: the fingerprint identifies it, the name is for people."""

    fingerprint: str
    name: str


class Layout(NamedTuple):
    """A kind of file.

    Attributes:
        noun: what such a file is called in messages, such as "score cache".
        table: the table of rows, which is also what they are called, such as "scores".
        columns: their definitions in SQL; one of them is `model`.
        owner: the application id, by which files of other programs are recognised.
        version: the version of the layout.
        write_ahead: whether writers do not disturb readers; such a file cannot be read from a read-only disk.
    """

    noun: str
    table: str
    columns: str
    owner: int
    version: int
    write_ahead: bool


def connect(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open a file; a missing file is created.

    Raises:
        TourError: when the file is a database of another program or has another version of the layout.
        sqlite3.Error: when it cannot be opened.
    """
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        if _owner_and_version(connection) != (layout.owner, layout.version):
            with transaction(connection):
                _create(connection, path, layout)
        if layout.write_ahead:
            _enable_write_ahead(connection)
            # A crash of the machine may lose the last writes, but does not damage the file.
            connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write everything in the block, or nothing if it fails."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def use_model(connection: sqlite3.Connection, model: Model | None) -> int:
    """Record that a model is used now, and return its number in the file."""
    if model is None:
        return UNKNOWN_MODEL
    now = int(time.time())
    row = connection.execute(
        "INSERT INTO models (fingerprint, name, first_used, last_used) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (fingerprint) DO UPDATE SET name = excluded.name, last_used = excluded.last_used "
        f"RETURNING {_COLUMNS}",
        (*model, now, now),
    ).fetchone()
    connection.execute("UPDATE models SET checksum = ? WHERE id = ?", (_checksum(row), row[0]))
    return row[0]


def read_keys(
    connection: sqlite3.Connection, columns: str, table: str, keys: Sequence[bytes]
) -> Iterator[tuple[Any, ...]]:
    """The columns of those rows of a table whose key is among the given ones."""
    for start in range(0, len(keys), MAX_PARAMETERS):
        part = keys[start : start + MAX_PARAMETERS]
        marks = ",".join("?" * len(part))
        yield from connection.execute(f"SELECT {columns} FROM {table} WHERE key IN ({marks})", part).fetchall()


def application_id(path: Path) -> int:
    """The number in the header of an SQLite file that tells whose it is; 0 for any other file."""
    try:
        with open(path, "rb") as file:
            header = file.read(72)
    except OSError:
        return 0
    return int.from_bytes(header[68:72], "big") if header.startswith(b"SQLite format 3") else 0


def is_damage(error: Exception) -> bool:
    """Whether an error means that the content of a file is damaged.

    SQLITE_ERROR means that a table or a column is missing. Python cannot decode what SQLite says about a damaged
    definition, and a damaged length asks for too much memory.
    """
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    return (
        isinstance(error, UnicodeDecodeError | MemoryError)
        or _error_code(error) in damage
        or str(error).startswith("Could not decode")
    )


def inode(path: Path) -> int | None:
    """The inode number of a file, or None if it does not exist; it changes when the file is replaced."""
    return path.stat().st_ino if path.exists() else None


def move_damaged(path: Path, damaged_inode: int | None, error: Exception, *, noun: str) -> None:
    """Rename a damaged file to `NAME.damaged-N`, unless another process has already replaced it.

    Args:
        path: the file.
        damaged_inode: the inode of the damaged file; a file with another inode is new and stays.
        error: the error that showed the damage, for the log.
        noun: what the file is called in messages.
    """
    if inode(path) != damaged_inode:
        return
    number = 1
    while (target := append_suffix(path, f".damaged-{number}")).exists():
        number += 1
    path.rename(target)
    for suffix in ("-wal", "-shm"):
        if (companion := append_suffix(path, suffix)).exists():
            companion.rename(append_suffix(target, suffix))
    log.warning("the %s %s is damaged (%s): renamed to %s, starting with an empty cache", noun, path, error, target)


def size_on_disk(path: Path) -> int:
    """Bytes of the file and of its write-ahead log."""
    return sum(file.stat().st_size for file in (path, append_suffix(path, "-wal")) if file.exists())


def append_suffix(path: Path, suffix: str) -> Path:
    """The path with `suffix` appended to its name, such as `scores.sqlite-wal`."""
    return path.with_name(path.name + suffix)


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


class CacheFile(NamedTuple):
    """A file that is shown and pruned."""

    layout: Layout
    path: Path

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.path)

    @property
    def rows(self) -> str:
        """What its rows are called."""
        return self.layout.table

    def size(self) -> int:
        """Bytes of the file and of its write-ahead log."""
        return size_on_disk(self.path)

    def models(self) -> list[ModelUse]:
        """Count the rows of each model, in order of first use."""
        with self.open() as connection:
            return self._models(connection)

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
        with self.open() as connection:
            with transaction(connection):
                chosen = choose_models(self._models(connection), models, unused_for, rows=self.rows, where=self.name)
                if not dry_run:
                    numbers = [(use.number,) for use in chosen]
                    connection.executemany(f"DELETE FROM {self.rows} WHERE model = ?", numbers)
                    connection.executemany(f"DELETE FROM models WHERE id = ? AND id <> {UNKNOWN_MODEL}", numbers)
            if chosen and not dry_run:
                try:
                    connection.execute("VACUUM")
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                except sqlite3.OperationalError as error:
                    log.warning("the %s were removed, but %s could not be made smaller (%s)", self.rows, self, error)
        return chosen

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Open the file, which must exist; errors of SQLite become a TourError."""
        noun = self.layout.noun
        if not self.path.is_file():
            raise TourError(f"the {noun} {self.path} does not exist; give the path of an existing one.")
        try:
            connection = connect(self.path, self.layout)
            try:
                yield connection
            finally:
                connection.close()
        except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
            if is_damage(error):
                raise self.damaged(str(error)) from error
            advice = "try again when no other process uses it" if _is_busy(error) else "make room on its disk"
            raise TourError(f"the {noun} {self.path} cannot be used ({error}); {advice}.") from error

    def damaged(self, reason: str) -> TourError:
        """Make the error for a damaged file."""
        return TourError(
            f"the {self.layout.noun} {self.path} is damaged ({reason}); rename or delete it, then search again."
        )

    def _models(self, connection: sqlite3.Connection) -> list[ModelUse]:
        found = connection.execute(
            f"SELECT {_COLUMNS}, ifnull(count, 0) FROM models LEFT JOIN "
            f"(SELECT model, count(*) AS count FROM {self.rows} GROUP BY model) ON model = id ORDER BY first_used, id"
        )
        uses = [ModelUse(*row) for row in found]
        for use in uses:  # SQLite stores anything in any column
            texts, times = (use.fingerprint, use.name), (use.first_used, use.last_used)
            right = all(isinstance(time, int) and 0 <= time < _LAST_SECOND for time in times)
            if not right or not all(isinstance(text, str) for text in texts):
                raise self.damaged("a model has values that were never written")
        return [use for use in uses if use.number != UNKNOWN_MODEL or use.rows]


def choose_models(
    uses: list[ModelUse], models: Sequence[str], unused_for: float | None, *, rows: str, where: str
) -> list[ModelUse]:
    """Those of the models that `prune` means; `rows` and `where` are what messages call the rows and their place."""
    if not models and unused_for is None:
        raise TourError(f"no {rows} were chosen for removal; name models, or say how many days they were not used.")
    for model in models:
        if not any(use.is_named(model) for use in uses):
            raise TourError(f"{where} has no {rows} of a model {model!r}; `stats` lists the models it has.")
    latest = time.time() - unused_for * _SECONDS_PER_DAY if unused_for is not None else float("inf")
    return [use for use in uses if use.last_used <= latest and (not models or any(map(use.is_named, models)))]


def _create(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    """Create the tables of a new file; refuse any other."""
    found = _owner_and_version(connection)
    if found == (layout.owner, layout.version):  # another process has just created them
        return
    if found[0] == layout.owner:
        raise TourError(
            f"the {layout.noun} {path} has layout {found[1]}, but this version reads layout {layout.version}; "
            "delete it, or give another path."
        )
    if found != (0, 0) or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise TourError(f"{path} is a database of another program; give another path for the {layout.noun}.")
    connection.execute(f"CREATE TABLE {layout.table} {layout.columns}")
    connection.execute(
        "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
        "first_used INTEGER NOT NULL, last_used INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0)"
    )
    now = int(time.time())
    unknown = (UNKNOWN_MODEL, "", "", now, now)
    connection.execute("INSERT INTO models VALUES (?, ?, ?, ?, ?, ?)", (*unknown, _checksum(unknown)))
    connection.execute(f"PRAGMA application_id = {layout.owner}")
    connection.execute(f"PRAGMA user_version = {layout.version}")


def _owner_and_version(connection: sqlite3.Connection) -> tuple[int, int]:
    connection.execute("SELECT 1 FROM sqlite_master")  # reads the definitions of tables, which may be damaged
    owner, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    return owner, version


def _checksum(columns: Sequence[object]) -> int:
    """A checksum of a model's other columns."""
    return zlib.crc32(json.dumps(columns, default=repr).encode())


def _enable_write_ahead(connection: sqlite3.Connection) -> None:
    # SQLite's own timeout does not apply to a change of the journal mode.
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _is_busy(error: Exception) -> bool:
    """Whether an error means that another process uses the file."""
    return _error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _error_code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
