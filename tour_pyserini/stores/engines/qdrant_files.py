"""The files of Qdrant's local mode: its client keeps each point as a pickle, in an SQLite file per collection."""

import contextlib
import io
import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line

_ALLOWED = {
    ("qdrant_client.http.models.models", "PointStruct"),
    ("qdrant_client.http.models.models", "SparseVector"),
    ("builtins", "set"),
}


class _PointReader(pickle.Unpickler):
    """Reads a point, and refuses to load anything that a point does not consist of."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it would load {module}.{name}")
        return super().find_class(module, name)


def check_points(folder: Path) -> None:
    """Refuse a local database whose points hold anything but values: the client would run the code in them.

    Raises:
        TourError: if they do, or cannot be read.
    """
    for file in sorted(folder.glob("collection/*/storage.sqlite")):
        try:
            # A path may have # and %, which mean something in an address.
            address = f"{file.resolve().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
                for (point,) in database.execute("SELECT point FROM points"):
                    _PointReader(io.BytesIO(point)).load()
        except Exception as error:  # damaged pickles raise errors of many types
            raise TourError(
                f"{file} does not hold the points of a Qdrant collection ({first_line(error):.200}); "
                "delete its folder and load the collection again."
            ) from error


@contextlib.contextmanager
def write_quickly(client: Any, name: str) -> Iterator[None]:
    """In this block, a local client does not wait for the disk after each point, but at the end.

    It commits every point by itself, and each commit would wait for the disk. A killed process loses nothing.
    """
    local = getattr(getattr(client, "_client", None), "collections", {}).get(name)
    database = getattr(getattr(local, "storage", None), "storage", None)
    if not isinstance(database, sqlite3.Connection):  # a server, or a client of another version
        yield
        return
    database.execute("PRAGMA synchronous = OFF")
    try:
        yield
    finally:
        database.execute("PRAGMA synchronous = FULL")
