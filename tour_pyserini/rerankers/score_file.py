"""The SQLite file of a score cache: its layout, connections to it, and how a damaged file is detected and moved away.

Layout 3 has two tables. `scores` holds a raw logit and the number of a model for each key of 16 bytes. `models` holds
the fingerprint, the name and the first and last use of each model. Each row of both has a checksum of its other
columns. Model 0 stands for scores from layout 1, which did not record the model; layout 2 had no checksums.
"""

import json
import logging
import sqlite3
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tour_pyserini.errors import TourError

log = logging.getLogger(__name__)

APPLICATION_ID = 0x546F7552  # "TouR"; databases of other programs are recognised by it and refused
LAYOUT_VERSION = 3
KEY_BYTES = 16
UNKNOWN_MODEL = 0  # number of the model of scores whose model was not recorded
LOCK_TIMEOUT = 60.0  # seconds to wait for another process


def connect(path: Path) -> sqlite3.Connection:
    """Open a score file in write-ahead mode. A missing file is created; a file of an earlier layout is upgraded.

    The connection has the SQL functions `score_checksum(key, logit, model)` and `model_checksum(id, fingerprint, name,
    first_used, last_used)`.

    Raises:
        TourError: when the file is a database of another program or has an unknown layout.
        sqlite3.Error: when it cannot be opened.
    """
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    connection.create_function("score_checksum", 3, score_checksum, deterministic=True)
    connection.create_function("model_checksum", 5, model_checksum, deterministic=True)
    try:
        with transaction(connection):
            _ensure_layout(connection, path)
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


def score_checksum(key: object, logit: object, model: object) -> int | None:
    """A checksum of a score, or None for values that no score has."""
    if not (isinstance(key, bytes) and isinstance(logit, float) and isinstance(model, int)):
        return None
    return zlib.crc32(key + struct.pack("<dq", logit + 0.0, model))  # SQLite stores -0.0 as 0.0


def model_checksum(*columns: object) -> int:
    """A checksum of a model's other columns."""
    return zlib.crc32(json.dumps(columns, default=repr).encode())


def inode(path: Path) -> int | None:
    """The inode number of a file, or None if it does not exist; it changes when the file is replaced."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error means that the content of the file is damaged; SQLITE_ERROR: it lacks a table or a column."""
    return _error_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether an error means that another process uses the file."""
    return _error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def move_damaged(path: Path, damaged_inode: int | None, error: sqlite3.Error) -> None:
    """Rename a damaged file to `NAME.damaged-N`, unless another process has already replaced it.

    Args:
        path: the file.
        damaged_inode: the inode of the damaged file; a file with another inode is new and stays.
        error: the error that showed the damage, for the log.
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
    log.warning("the score cache %s is damaged (%s): renamed to %s, starting with an empty cache", path, error, target)


def size_on_disk(path: Path) -> int:
    """Bytes of the file and of its write-ahead log."""
    return sum(file.stat().st_size for file in (path, append_suffix(path, "-wal")) if file.exists())


def append_suffix(path: Path, suffix: str) -> Path:
    """The path with `suffix` appended to its name, such as `scores.sqlite-wal`."""
    return path.with_name(path.name + suffix)


def _ensure_layout(connection: sqlite3.Connection, path: Path) -> None:
    owner, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables and (owner, version) == (0, 0):
        connection.execute("CREATE TABLE scores (key BLOB PRIMARY KEY, logit REAL NOT NULL) WITHOUT ROWID")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _upgrade_to_layout_2(connection)
        _upgrade_to_layout_3(connection)
    elif owner != APPLICATION_ID or "scores" not in tables:
        raise TourError(f"{path} is a database of another program; give another path for the score cache.")
    elif version in (1, 2):
        if version == 1:
            _upgrade_to_layout_2(connection)
        _upgrade_to_layout_3(connection)
    elif version != LAYOUT_VERSION:
        raise TourError(
            f"the score cache {path} has layout {version}, but this version reads layout {LAYOUT_VERSION}; "
            "give another path."
        )


def _upgrade_to_layout_2(connection: sqlite3.Connection) -> None:
    """Add the table of models, and the column `model` to the table of scores; every score stays."""
    connection.execute(
        "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
        "first_used INTEGER NOT NULL, last_used INTEGER NOT NULL)"
    )
    now = int(time.time())
    connection.execute("INSERT INTO models VALUES (?, '', '', ?, ?)", (UNKNOWN_MODEL, now, now))
    connection.execute(f"ALTER TABLE scores ADD COLUMN model INTEGER NOT NULL DEFAULT {UNKNOWN_MODEL}")


def _upgrade_to_layout_3(connection: sqlite3.Connection) -> None:
    """Add a checksum to each row; every score stays."""
    for table, columns in (("scores", "key, logit, model"), ("models", "id, fingerprint, name, first_used, last_used")):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
        connection.execute(f"UPDATE {table} SET checksum = ifnull({table[:-1]}_checksum({columns}), 0)")
    connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")


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
