"""Vectors of queries that were encoded before: a folder of encoded queries, and a file that is kept between runs.

In the folder, `embedding.pkl` is Pyserini's file: a pickled data frame with the columns `text` and `embedding`. Nothing
in it is run (see `data.pickled_table`).

The file is SQLite's, so that a query is encoded once and torch need not start again. Its table `vectors` holds a value
for each key: a checksum of 8 bytes, then the vector as float32, and the number of its encoder in the table `models`.
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
from tour_pyserini.data.pickled_table import read_pickled_table
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_replace
from tour_pyserini.support.model_files import CallLock
from tour_pyserini.support.pyserini import ensure_java
from tour_pyserini.support.sqlite_cache import Model, SqliteCache

log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

FILE = "embedding.pkl"
_CHECK_BYTES = 8


class _EncodedQueries:
    """A query encoder that looks up the vector of a query by its text."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table

    def encode(self, query: str, **_: Any) -> Any:
        """The vector [d] of a query."""
        return self._table[query]


def load_encoded_queries(spec: str | os.PathLike[str]) -> _EncodedQueries:
    """Load encoded queries from a folder with `embedding.pkl`, or by a name that Pyserini can download."""
    folder = Path(spec)
    if not folder.exists():
        ensure_java()
        from pyserini.util import download_encoded_queries

        try:
            folder = Path(download_encoded_queries(str(spec)))
        except Exception as error:
            raise TourError(
                f"encoded queries not found: {spec} is not a folder, and Pyserini cannot download it: {error}."
            ) from error
    columns = _read_columns(folder / FILE, "text", "embedding")
    return _EncodedQueries(dict(zip(columns["text"], columns["embedding"], strict=True)))


def write_encoded_queries(
    folder: str | os.PathLike[str], ids: Sequence[Any], texts: Sequence[str], vectors: Floats
) -> None:
    """Write vectors [n, d] to a folder that `python -m pyserini.search.faiss --encoded-queries FOLDER` can read."""
    import pandas

    frame = pandas.DataFrame({"id": list(ids), "text": list(texts), "embedding": list(vectors)})
    with atomic_replace(Path(folder) / FILE) as partial:
        frame.to_pickle(partial, compression=None)


def read_query_table(folder: str | os.PathLike[str]) -> tuple[list[Any], list[str], list[Any]]:
    """The ids, texts and vectors that `write_encoded_queries` wrote, in their order."""
    columns = _read_columns(Path(folder) / FILE, "id", "text", "embedding")
    return columns["id"], columns["text"], columns["embedding"]


def _read_columns(path: Path, *names: str) -> dict[str, list[Any]]:
    try:
        columns = read_pickled_table(path)
        for name in names:
            if name not in columns:
                raise ValueError(f"it has no column {name!r}")
        return {**columns, "embedding": _vectors(columns["embedding"])}
    except OSError as error:
        raise TourError(f"cannot read the encoded queries {path}: {error.strerror}.") from error
    except Exception as error:  # damaged and hostile pickles raise errors of many types
        raise TourError(f"{path} is not a table of encoded queries (text, embedding): {first_line(error)}.") from error


def _vectors(cells: Sequence[Any]) -> list[Floats]:
    """The vectors in cells, float32; a number is a vector of shape []."""
    vectors = [np.asarray(cell) for cell in cells]
    if not all(vector.dtype.kind in "fiub" for vector in vectors):
        raise ValueError("a row has no vector of numbers")
    return [vector.astype(np.float32, copy=False) for vector in vectors]


def _checksum(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(key + content, digest_size=_CHECK_BYTES).digest()


class SqliteVectors(SqliteCache):
    """Values of queries by key in an SQLite file."""

    noun = "file of query vectors"
    rows = "vectors"
    columns = "(key BLOB PRIMARY KEY, value BLOB NOT NULL, model INTEGER NOT NULL DEFAULT 0)"
    owner = 0x546F7556  # "TouV"
    version = 1
    write_ahead = False

    @staticmethod
    def is_intact(*row: Any) -> bool:
        """Whether a row has its checksum."""
        key, value, _ = row
        if not (isinstance(key, bytes) and isinstance(value, bytes)):
            return False
        return (len(value) - _CHECK_BYTES) % 4 == 0 and value[:_CHECK_BYTES] == _checksum(key, value[_CHECK_BYTES:])


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

    def _use_file(self, use: Callable[[SqliteVectors], _Result]) -> _Result | None:
        try:
            with SqliteVectors(self._path, self._model) as cache:
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
