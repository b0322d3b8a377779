"""The SQLite file that scores are kept in: opening it, and what to do when it is damaged."""

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tour_pyserini.errors import TourError

logger = logging.getLogger(__name__)

APPLICATION = 0x546F7552  # "TouR", so that nobody else's database is taken for a cache
VERSION = 2
NOBODY = 0  # the model of scores whose model is not known
PATIENCE = 60.0  # seconds to wait for another process


def connect(path: Path) -> sqlite3.Connection:
    """Open the file in write-ahead mode; one that is not there is made, one of an earlier layout brought up to date.

    Raises:
        TourError: when it is the database of something else or of another version.
        sqlite3.Error: when it cannot be opened.
    """
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        with transaction(connection):
            _ensure_layout(connection, path)
        _write_ahead(connection)
        # A crash of the machine may lose the last writes; the file stays whole.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write everything in the block, or nothing where it fails."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def identity(path: Path) -> int | None:
    """What tells a file from another that took its name; None when there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file's content is at fault."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def set_aside(path: Path, seen: int | None, error: sqlite3.Error) -> None:
    """Rename a damaged file to `NAME.damaged-N`, unless another process has put a new one there already.

    Args:
        path: the file.
        seen: the identity of the file that was found damaged.
        error: what was found.
    """
    if identity(path) != seen:
        return
    number = 1
    while (aside := beside(path, f".damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        if (companion := beside(path, suffix)).exists():
            companion.rename(beside(aside, suffix))
    logger.warning("the score cache %s is damaged (%s): set aside as %s, starting anew", path, error, aside)


def size_on_disk(path: Path) -> int:
    """Bytes of the file and of what is not yet merged into it."""
    return sum(file.stat().st_size for file in (path, beside(path, "-wal")) if file.exists())


def beside(path: Path, suffix: str) -> Path:
    """The file whose name is longer by `suffix`."""
    return path.with_name(path.name + suffix)


def _ensure_layout(connection: sqlite3.Connection, path: Path) -> None:
    owner, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables and (owner, version) == (0, 0):
        connection.execute("CREATE TABLE scores (key BLOB PRIMARY KEY, logit REAL NOT NULL) WITHOUT ROWID")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        _add_models(connection)
    elif owner != APPLICATION or "scores" not in tables:
        raise TourError(f"{path} is a database of something else; choose another place for the score cache.")
    elif version == 1:
        _add_models(connection)
    elif version != VERSION:
        raise TourError(f"the score cache {path} has layout {version} and not {VERSION}; choose another place.")


def _add_models(connection: sqlite3.Connection) -> None:
    """From layout 1, which did not say whose a score is, to layout 2; every score stays."""
    connection.execute(
        "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
        "first_used INTEGER NOT NULL, last_used INTEGER NOT NULL)"
    )
    now = int(time.time())
    connection.execute("INSERT INTO models VALUES (?, '', '', ?, ?)", (NOBODY, now, now))
    connection.execute(f"ALTER TABLE scores ADD COLUMN model INTEGER NOT NULL DEFAULT {NOBODY}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _write_ahead(connection: sqlite3.Connection) -> None:
    # Unlike statements, a change of mode does not wait for others.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
