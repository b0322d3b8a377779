"""The layout of the SQLite file of query vectors, and what its maintenance knows.

The table `vectors` holds a value for each key: a checksum of 8 bytes, then the vector as float32. Layout 1 also has the
number of a model for each row, and the table `models` of every kept file; layout 0 did not record models.
"""

import hashlib
import sqlite3
from pathlib import Path

from tour_pyserini.errors import TourError
from tour_pyserini.support import kept_file
from tour_pyserini.support.kept_file import UNKNOWN_MODEL, Layout, add_model_checksums, create_models, owner_and_version
from tour_pyserini.support.kept_upkeep import KeptRows

APPLICATION_ID = 0x546F7556  # "TouV"
LAYOUT_VERSION = 1
KEY_BYTES = 16
CHECK_BYTES = 8


def connect(path: Path) -> sqlite3.Connection:
    """Open a file of query vectors. A missing file is created; a file of layout 0 is upgraded.

    The connection has the SQL functions `is_whole(key, value)` and `model_checksum`.

    Raises:
        TourError: when the file is a database of another program or has an unknown layout.
        sqlite3.Error: when it cannot be opened.
    """
    layout = Layout(APPLICATION_ID, LAYOUT_VERSION, _prepare, {"is_whole": (2, is_whole)})
    return kept_file.connect(path, layout, write_ahead=False)


def checksum(key: bytes, content: bytes) -> bytes:
    """A checksum of a row."""
    return hashlib.blake2b(key + content, digest_size=CHECK_BYTES).digest()


def is_whole(key: object, value: object) -> bool:
    """Whether a row has its checksum."""
    if not (isinstance(key, bytes) and isinstance(value, bytes)):
        return False
    return (len(value) - CHECK_BYTES) % 4 == 0 and value[:CHECK_BYTES] == checksum(key, value[CHECK_BYTES:])


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    owner, version = owner_and_version(connection)
    if owner != APPLICATION_ID:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise TourError(f"{path} is a database of another program; it cannot hold query vectors.")
        connection.execute("CREATE TABLE vectors (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        version = 0
    if version == 0:
        create_models(connection)
        add_model_checksums(connection)
        connection.execute(f"ALTER TABLE vectors ADD COLUMN model INTEGER NOT NULL DEFAULT {UNKNOWN_MODEL}")
        connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
    elif version != LAYOUT_VERSION:
        raise TourError(f"{path} has layout {version}, but this version reads layout {LAYOUT_VERSION}; delete it.")


VECTORS = KeptRows(
    noun="file of query vectors",
    table="vectors",
    connect=connect,
    faults={
        f"with keys that do not have {KEY_BYTES} bytes": f"typeof(key) <> 'blob' OR length(key) <> {KEY_BYTES}",
        "with a wrong checksum": "NOT is_whole(key, value)",
    },
)
