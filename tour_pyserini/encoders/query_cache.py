"""Vectors of queries that are kept between runs, so that a query is encoded once and torch need not start again.

They lie in an SQLite file. The table `vectors` holds a value for each key: a checksum of 8 bytes, then the vector as
float32, and the number of its encoder in the table `models`.
"""

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.support.sqlite_cache import Layout, Model, connect, read_keys, transaction, use_model
from tour_pyserini.support.tokens import CallLock

log = logging.getLogger(__name__)

VECTORS = Layout(
    noun="file of query vectors",
    table="vectors",
    columns="(key BLOB PRIMARY KEY, value BLOB NOT NULL, model INTEGER NOT NULL DEFAULT 0)",
    owner=0x546F7556,  # "TouV"
    version=1,
    write_ahead=False,
)
CHECK_BYTES = 8
_SECONDS_PER_DAY = 86_400


class CachedQueryEncoder:
    """A query encoder that looks vectors up in a file first; its model is loaded when a query is missing there.

    Vectors are the same to the last bit as those of the encoder. If the file cannot be read or written, queries are
    encoded as if there were no file. Threads may share it: one of them encodes at a time.

    Args:
        load: loads the encoder.
        identity: everything that vectors depend on: model, tokenizer, pooling, versions of the libraries, ...
        path: the file; it is created if it does not exist.
        name: the encoder's name, for people.
    """

    def __init__(
        self, load: Callable[[], Any], identity: Mapping[str, Any], path: str | os.PathLike[str], *, name: str = ""
    ) -> None:
        self._load, self._path = load, Path(path)
        self._identity = json.dumps(identity, sort_keys=True, default=str).encode()
        self._model = Model(hashlib.blake2b(self._identity, digest_size=16).hexdigest(), name)
        self._encoder: Any = None
        self._lock = CallLock()

    def encode(self, query: str, **options: Any) -> Floats:
        """The vector [d] of a query; with options such as `max_length`, the file is not used."""
        if not options:
            return self.encode_batch([query])[0]
        with self._lock:
            return self._loaded().encode(query, **options)

    def encode_batch(self, queries: Sequence[str]) -> Floats:
        """The vectors [n, d] of the queries."""
        keys = {query: self._key(query) for query in queries}
        stored = self._get(keys.values())
        missing = [query for query, key in keys.items() if key not in stored]
        if missing:
            with self._lock:
                vectors = np.asarray(self._loaded().encode_batch(missing), dtype=np.float32)
            new = {keys[query]: vector for query, vector in zip(missing, vectors, strict=True)}
            self._put(new)
            stored |= new
        return np.stack([stored[keys[query]] for query in queries])

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
            with closing(connect(self._path, VECTORS)) as connection:
                self._record_use(connection)
                for key, value in read_keys(connection, "key, value", "vectors", keys):
                    if is_whole(key, value):
                        vectors[key] = np.frombuffer(value, dtype="<f4", offset=CHECK_BYTES)
        except (sqlite3.Error, UnicodeDecodeError, MemoryError, TourError) as error:
            log.warning(
                "the query vectors in %s cannot be read (%s): queries are encoded again; delete it", self._path, error
            )
        return vectors

    def _record_use(self, connection: sqlite3.Connection) -> None:
        """Record that the encoder is used, at most once a day; a file that cannot be written can still be read."""
        used = connection.execute("SELECT last_used FROM models WHERE fingerprint = ?", (self._model.fingerprint,))
        if (row := used.fetchone()) and row[0] < time.time() - _SECONDS_PER_DAY:
            with contextlib.suppress(sqlite3.OperationalError), transaction(connection):
                use_model(connection, self._model)

    def _put(self, vectors: Mapping[bytes, Floats]) -> None:
        rows = []
        for key, vector in vectors.items():
            content = np.ascontiguousarray(vector, dtype="<f4").tobytes()
            rows.append((key, checksum(key, content) + content))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(connect(self._path, VECTORS)) as connection, transaction(connection):
                model = use_model(connection, self._model)
                connection.executemany(f"INSERT OR REPLACE INTO vectors VALUES (?, ?, {model})", rows)
        except (OSError, sqlite3.Error, UnicodeDecodeError, MemoryError, TourError) as error:
            log.warning("query vectors cannot be kept in %s (%s)", self._path, error)


def checksum(key: bytes, content: bytes) -> bytes:
    """A checksum of a row."""
    return hashlib.blake2b(key + content, digest_size=CHECK_BYTES).digest()


def is_whole(key: object, value: object) -> bool:
    """Whether a row has its checksum."""
    if not (isinstance(key, bytes) and isinstance(value, bytes)):
        return False
    return (len(value) - CHECK_BYTES) % 4 == 0 and value[:CHECK_BYTES] == checksum(key, value[CHECK_BYTES:])
