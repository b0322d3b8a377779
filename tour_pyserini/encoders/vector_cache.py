"""Vectors of queries that are kept between runs, so that a query is encoded once and torch need not start again."""

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats

log = logging.getLogger(__name__)

_APPLICATION_ID = 0x546F7556  # "TouV"
_LOCK_TIMEOUT = 60.0  # seconds to wait for another process
_MAX_PARAMETERS = 900  # per statement; the smallest limit of SQLite is 999
_CHECK_BYTES = 8


class StoredVectorEncoder:
    """A query encoder that looks vectors up in a file first; its model is loaded when a query is missing there.

    Vectors are the same to the last bit as those of the encoder. If the file cannot be read or written, queries are
    encoded as if there were no file.

    Args:
        load: loads the encoder.
        identity: everything that vectors depend on: model, tokenizer, pooling, versions of the libraries, ...
        path: the file; it is created if it does not exist.
    """

    def __init__(self, load: Callable[[], Any], identity: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
        self._load, self._path = load, Path(path)
        self._identity = json.dumps(identity, sort_keys=True, default=str).encode()
        self._encoder: Any = None

    def encode(self, query: str, **options: Any) -> Floats:
        """The vector [d] of a query; with options such as `max_length`, the file is not used."""
        return self._loaded().encode(query, **options) if options else self.encode_batch([query])[0]

    def encode_batch(self, queries: Sequence[str]) -> Floats:
        """The vectors [n, d] of the queries."""
        keys = {query: self._key(query) for query in queries}
        stored = self._get(keys.values())
        missing = [query for query, key in keys.items() if key not in stored]
        if missing:
            vectors = np.asarray(self._loaded().encode_batch(missing), dtype=np.float32)
            new = {keys[query]: vector for query, vector in zip(missing, vectors, strict=True)}
            self._put(new)
            stored |= new
        return np.stack([stored[keys[query]] for query in queries])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # an object being copied has no attribute yet
            raise AttributeError(name)
        return getattr(self._loaded(), name)

    def _loaded(self) -> Any:
        if self._encoder is None:
            self._encoder = self._load()
        return self._encoder

    def _key(self, query: str) -> bytes:
        digest = hashlib.blake2b(self._identity, digest_size=16)
        digest.update(b"\n" + query.encode("utf-8", "surrogatepass"))
        return digest.digest()

    def _get(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        """The stored vectors; a damaged one counts as missing."""
        keys = list(keys)
        if not self._path.is_file():
            return {}
        vectors: dict[bytes, Floats] = {}
        try:
            with closing(_connect(self._path)) as connection:
                for start in range(0, len(keys), _MAX_PARAMETERS):
                    part = keys[start : start + _MAX_PARAMETERS]
                    marks = ", ".join("?" * len(part))
                    for key, value in connection.execute(
                        f"SELECT key, value FROM vectors WHERE key IN ({marks})", part
                    ):
                        if value[:_CHECK_BYTES] == _check(key, value[_CHECK_BYTES:]):
                            vectors[key] = np.frombuffer(value, dtype="<f4", offset=_CHECK_BYTES)
        except sqlite3.Error as error:
            log.warning(
                "the query vectors in %s cannot be read (%s): queries are encoded again; delete it", self._path, error
            )
        return vectors

    def _put(self, vectors: Mapping[bytes, Floats]) -> None:
        rows = []
        for key, vector in vectors.items():
            content = np.ascontiguousarray(vector, dtype="<f4").tobytes()
            rows.append((key, _check(key, content) + content))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_connect(self._path)) as connection, connection:
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        except (OSError, sqlite3.Error) as error:
            log.warning("query vectors cannot be kept in %s (%s)", self._path, error)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT)
    try:
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        if owner != _APPLICATION_ID:
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError("it is a database of another program")
            with connection:
                connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(key: bytes, content: bytes) -> bytes:
    """A checksum of a row."""
    return hashlib.blake2b(key + content, digest_size=_CHECK_BYTES).digest()
