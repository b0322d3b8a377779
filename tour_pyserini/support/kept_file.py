"""SQLite files of rows that are kept between runs, such as scores: connections, damage, and whose the rows are.

Each row belongs to a model: the table `models` holds the fingerprint, the name and the first and last use of each. Its
rows have a checksum of their other columns. Model 0 stands for rows whose model was not recorded.
"""

import json
import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

UNKNOWN_MODEL = 0  # number of the model of rows whose model was not recorded
LOCK_TIMEOUT = 60.0  # seconds to wait for another process
MODEL_COLUMNS = "id, fingerprint, name, first_used, last_used"


class Model(NamedTuple):
    """What rows were computed by: the fingerprint identifies it, the name is for people."""

    fingerprint: str
    name: str


class Layout(NamedTuple):
    """The tables of a kind of file.

    Attributes:
        owner: the application id, by which files of other programs are recognised.
        version: the version of the layout.
        prepare: is called in a transaction on a file that is new or has another owner or version: it creates, upgrades
            or refuses the tables.
        functions: functions that SQL can call, by name, each with its number of arguments.
    """

    owner: int
    version: int
    prepare: Callable[[sqlite3.Connection, Path], None]
    functions: Mapping[str, tuple[int, Callable[..., Any]]]


def connect(path: Path, layout: Layout, *, write_ahead: bool) -> sqlite3.Connection:
    """Open a file; a missing file is created.

    The connection also has the SQL function `model_checksum(id, fingerprint, name, first_used, last_used)`.

    Args:
        path: the file.
        layout: of its tables.
        write_ahead: whether writers do not disturb readers; such a file cannot be read from a read-only disk.

    Raises:
        TourError: when the file is a database of another program or has an unknown layout.
        sqlite3.Error: when it cannot be opened.
    """
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        with telling_damage():
            connection.execute("SELECT 1 FROM sqlite_master")  # reads the definitions of tables
            for name, (arguments, function) in {**layout.functions, "model_checksum": (5, model_checksum)}.items():
                connection.create_function(name, arguments, function, deterministic=True)
            if owner_and_version(connection) != (layout.owner, layout.version):
                with transaction(connection):
                    layout.prepare(connection, path)
            if write_ahead:
                _enable_write_ahead(connection)
                # A crash of the machine may lose the last writes, but does not damage the file.
                connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def telling_damage() -> Iterator[None]:
    """Turn two errors of Python that mean a damaged file into SQLite's.

    Python cannot decode what SQLite says about a damaged definition, and a damaged length asks for too much memory.
    """
    try:
        yield
    except (UnicodeDecodeError, MemoryError) as error:
        damage = sqlite3.DatabaseError(f"malformed database ({type(error).__name__})")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage from None


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


def owner_and_version(connection: sqlite3.Connection) -> tuple[int, int]:
    """The number of the program that a file belongs to, and the version of its layout."""
    owner, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    return owner, version


def application_id(path: Path) -> int:
    """The number in the header of an SQLite file that tells whose it is; 0 for any other file."""
    try:
        with open(path, "rb") as file:
            header = file.read(72)
    except OSError:
        return 0
    return int.from_bytes(header[68:72], "big") if header.startswith(b"SQLite format 3") else 0


def create_models(connection: sqlite3.Connection) -> None:
    """Create the table of models, with the unknown one."""
    connection.execute(
        "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
        "first_used INTEGER NOT NULL, last_used INTEGER NOT NULL)"
    )
    now = int(time.time())
    connection.execute("INSERT INTO models VALUES (?, '', '', ?, ?)", (UNKNOWN_MODEL, now, now))


def add_model_checksums(connection: sqlite3.Connection) -> None:
    """Add the column of checksums to the table of models."""
    connection.execute("ALTER TABLE models ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    connection.execute(f"UPDATE models SET checksum = model_checksum({MODEL_COLUMNS})")


def use_model(connection: sqlite3.Connection, model: Model | None) -> int:
    """Record that a model is used now, and return its number in the file."""
    if model is None:
        return UNKNOWN_MODEL
    now = int(time.time())
    connection.execute(
        "INSERT INTO models (fingerprint, name, first_used, last_used) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (fingerprint) DO UPDATE SET name = excluded.name, last_used = excluded.last_used",
        (*model, now, now),
    )
    connection.execute(
        f"UPDATE models SET checksum = model_checksum({MODEL_COLUMNS}) WHERE fingerprint = ?", (model.fingerprint,)
    )
    ((number,),) = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,)).fetchall()
    return number


def model_checksum(*columns: object) -> int:
    """A checksum of a model's other columns."""
    return zlib.crc32(json.dumps(columns, default=repr).encode())


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error means that the content of the file is damaged.

    SQLITE_ERROR means that a table or a column is missing; text that is not UTF-8 is an error of Python's own.
    """
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    return _error_code(error) in damage or str(error).startswith("Could not decode")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether an error means that another process uses the file."""
    return _error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def inode(path: Path) -> int | None:
    """The inode number of a file, or None if it does not exist; it changes when the file is replaced."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def move_damaged(path: Path, damaged_inode: int | None, error: sqlite3.Error, *, noun: str) -> None:
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


def _enable_write_ahead(connection: sqlite3.Connection) -> None:
    # SQLite's own timeout does not apply to a change of the journal mode.
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _error_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
