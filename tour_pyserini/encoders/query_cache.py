"""Vectors of queries that are kept between runs, so that a query is encoded once and torch need not start again.

They lie in an SQLite file. The table `vectors` holds a value for each key: a checksum of 8 bytes, then the vector as
float32, and the number of its encoder in the table `models`.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.support.sqlite_cache import Layout, Model, SqliteCache
from tour_pyserini.support.tokens import CallLock

log = logging.getLogger(__name__)

_CHECK_BYTES = 8

Result = TypeVar("Result")


def _checksum(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(key + content, digest_size=_CHECK_BYTES).digest()


def _is_intact(key: Any, value: Any, _: Any) -> bool:
    """Whether a row has its checksum."""
    if not (isinstance(key, bytes) and isinstance(value, bytes)):
        return False
    return (len(value) - _CHECK_BYTES) % 4 == 0 and value[:_CHECK_BYTES] == _checksum(key, value[_CHECK_BYTES:])


VECTORS = Layout(
    noun="file of query vectors",
    table="vectors",
    columns="(key BLOB PRIMARY KEY, value BLOB NOT NULL, model INTEGER NOT NULL DEFAULT 0)",
    owner=0x546F7556,  # "TouV"
    version=1,
    write_ahead=False,
    is_intact=_is_intact,
)


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
        rows = self._use_file(lambda cache: cache.read_rows(keys.values())) or ()
        vectors = {key: np.frombuffer(value, dtype="<f4", offset=_CHECK_BYTES) for key, value, _ in rows}
        if missing := [query for query, key in keys.items() if key not in vectors]:
            with self._lock:
                encoded = np.asarray(self._loaded().encode_batch(missing), dtype=np.float32)
            new = {keys[query]: vector for query, vector in zip(missing, encoded, strict=True)}
            self._use_file(lambda cache: cache.write_rows(partial(_make_rows, new)))
            vectors |= new
        return np.stack([vectors[keys[query]] for query in queries])

    def _use_file(self, use: Callable[[SqliteCache], Result]) -> Result | None:
        try:
            with SqliteCache(self._path, VECTORS, self._model) as cache:
                return use(cache)
        except TourError as error:
            log.warning("query vectors are not kept: %s", error)
            return None

    def _loaded(self) -> Any:
        if self._encoder is None:
            self._encoder = self._load()
        return self._encoder

    def _key(self, query: str) -> bytes:
        digest = hashlib.blake2b(self._identity, digest_size=16)
        digest.update(b"\n" + query.encode("utf-8", "surrogatepass"))
        return digest.digest()


def _make_rows(vectors: Mapping[bytes, Floats], model: int) -> Iterator[tuple[bytes, bytes, int]]:
    for key, vector in vectors.items():
        content = np.ascontiguousarray(vector, dtype="<f4").tobytes()
        yield key, _checksum(key, content) + content, model
