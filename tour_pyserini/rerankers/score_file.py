"""The layout of the SQLite file of a score cache.

Layout 3 has two tables. `scores` holds a raw logit, the number of a model and a checksum for each key of 16 bytes.
`models` is that of every kept file. Layout 1 did not record the model; layout 2 had no checksums.
"""

import sqlite3
import struct
import zlib
from pathlib import Path

from tour_pyserini.errors import TourError
from tour_pyserini.support import kept_file
from tour_pyserini.support.kept_file import UNKNOWN_MODEL, Layout, add_model_checksums, create_models, owner_and_version

APPLICATION_ID = 0x546F7552  # "TouR"; databases of other programs are recognised by it and refused
LAYOUT_VERSION = 3
KEY_BYTES = 16
_PACKED = struct.Struct("<dq")


def connect(path: Path) -> sqlite3.Connection:
    """Open a score file. A missing file is created; a file of an earlier layout is upgraded.

    The connection has the SQL functions `score_checksum(key, logit, model)` and `model_checksum`.

    Raises:
        TourError: when the file is a database of another program or has an unknown layout.
        sqlite3.Error: when it cannot be opened.
    """
    layout = Layout(APPLICATION_ID, LAYOUT_VERSION, _prepare, {"score_checksum": (3, score_checksum)})
    return kept_file.connect(path, layout, write_ahead=True)


def score_checksum(key: object, logit: object, model: object) -> int | None:
    """A checksum of a score, or None for values that no score has."""
    if not (isinstance(key, bytes) and isinstance(logit, float) and isinstance(model, int)):
        return None
    return zlib.crc32(key + _PACKED.pack(logit + 0.0, model))  # SQLite stores -0.0 as 0.0


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    owner, version = owner_and_version(connection)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables and (owner, version) == (0, 0):
        connection.execute("CREATE TABLE scores (key BLOB PRIMARY KEY, logit REAL NOT NULL) WITHOUT ROWID")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        version = 1
    elif owner != APPLICATION_ID or "scores" not in tables:
        raise TourError(f"{path} is a database of another program; give another path for the score cache.")
    if version == 1:
        create_models(connection)
        connection.execute(f"ALTER TABLE scores ADD COLUMN model INTEGER NOT NULL DEFAULT {UNKNOWN_MODEL}")
        version = 2
    if version == 2:
        add_model_checksums(connection)
        connection.execute("ALTER TABLE scores ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
        connection.execute("UPDATE scores SET checksum = ifnull(score_checksum(key, logit, model), 0)")
        connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
        version = 3
    if version != LAYOUT_VERSION:
        raise TourError(
            f"the score cache {path} has layout {version}, but this version reads layout {LAYOUT_VERSION}; "
            "give another path."
        )
