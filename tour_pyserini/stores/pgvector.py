"""PostgreSQL with the extension pgvector as an engine: a table per collection, exact or with an HNSW graph."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.stores.filters import Filter
from tour_pyserini.stores.vector_database import FOREIGN, CollectionState, Row, StoreAddress
from tour_pyserini.support.packages import import_optional

_EF, _MOST_EF = 128, 1000  # the most that pgvector takes
_COLUMNS = {"docid": "docid", "vector": "docid, vector", "passage": "docid, passage, title"}
_STATE = """
SELECT coalesce(obj_description(c.oid), ''),
    (SELECT atttypmod FROM pg_attribute WHERE attrelid = c.oid AND attname = 'vector'),
    EXISTS (SELECT 1 FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam
        WHERE i.indrelid = c.oid AND a.amname = 'hnsw')
FROM pg_class c WHERE c.oid = to_regclass(%s)
"""


def connect(location: str, timeout: float) -> "_PostgresEngine":
    """Connect to the server; the address names the database."""
    engine = _PostgresEngine(import_optional("psycopg", extra="pgvector"), location, timeout)
    with engine.cursor():
        return engine


class _PostgresEngine:
    """A connection to PostgreSQL, for one thread at a time; see `Engine`."""

    most_hits = 1 << 20
    most_bytes = 64 << 20

    def __init__(self, psycopg: Any, location: str, timeout: float) -> None:
        """Use the package psycopg; the first request connects."""
        self._psycopg, self._location, self._timeout = psycopg, location, timeout
        self._connection: Any = None
        self._lock = threading.Lock()

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor in a transaction of its own; a connection that was lost is made again."""
        with self._lock:
            if self._connection is None or self._connection.closed:
                self._connection = self._psycopg.connect(self._location, connect_timeout=max(1, int(self._timeout)))
            with self._connection.transaction(), self._connection.cursor(binary=True) as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {int(1000 * self._timeout)}")
                yield cursor

    def close(self) -> None:
        """Give up the connection."""
        if self._connection is not None:
            self._connection.close()

    def state(self, name: str) -> CollectionState | None:
        """What is known of a collection; None if it does not exist."""
        with self.cursor() as cursor:
            found = cursor.execute(_STATE, [_quoted(name)]).fetchone()
            if found is None:
                return None
            settings, dimension, has_graph = found
            if dimension is None:
                return FOREIGN
            size = cursor.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0]
        return CollectionState(dimension, size, "HNSW" if has_graph else "none", not has_graph, settings)

    def create(self, address: StoreAddress, dimension: int, settings: str, *, bm25: bool) -> None:
        """Make an empty table."""
        if bm25:
            raise TourError("PostgreSQL has no BM25; leave out --bm25, and give a folder made with it as --sparse.")
        name, numbers = _quoted(address.collection), address.numbers
        with self.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
            cursor.execute(
                f"CREATE TABLE {name} (id bigint PRIMARY KEY, docid text NOT NULL, vector vector({dimension}) "
                "NOT NULL, passage text, title integer NOT NULL, fields jsonb NOT NULL)"
            )
            text = self._psycopg.sql.Literal(settings)
            cursor.execute(self._psycopg.sql.SQL(f"COMMENT ON TABLE {name} IS ") + text)
            cursor.execute(f"CREATE INDEX ON {name} (docid)")
            cursor.execute(f"CREATE INDEX ON {name} USING gin (fields jsonb_path_ops)")
            if address.kind == "hnsw":
                graph = f"m = {numbers.get('M', 16)}, ef_construction = {numbers.get('efC', 200)}"
                cursor.execute(f"CREATE INDEX ON {name} USING hnsw (vector vector_ip_ops) WITH ({graph})")

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Put passages into a collection, in place of earlier ones with the same ids."""
        with self.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")  # a graph may grow slowly, and half a batch is no use
            cursor.execute(f"DELETE FROM {_quoted(name)} WHERE id = ANY(%s)", [[row.id for row in rows]])
            with cursor.copy(f"COPY {_quoted(name)} FROM STDIN") as copy:
                for row in rows:
                    fields = json.dumps(row.fields, ensure_ascii=False)
                    copy.write_row((row.id, row.docid, _written(row.vector), row.passage, row.title, fields))

    def finish(self, name: str) -> None:
        """Let the server count its rows, so that it plans searches well."""
        with self.cursor() as cursor:
            cursor.execute(f"ANALYZE {_quoted(name)}")

    def search(
        self, address: StoreAddress, state: CollectionState, vectors: Floats, k: int, wanted: Filter | None
    ) -> list[list[Row]]:
        """The k hits of each of the vectors [n, d], with their own vectors, among passages that pass the filter."""
        passing, values = wanted.sql() if wanted else ("true", [])
        query = (
            f"SELECT id, docid, vector, -(vector <#> %s::vector) FROM {_quoted(address.collection)} WHERE {passing} "
            "ORDER BY vector <#> %s::vector LIMIT %s"
        )
        effort, found = min(_MOST_EF, max(k, address.numbers.get("ef", _EF))), []
        for vector in map(_written, vectors):
            with self.cursor() as cursor:
                if not state.exact:
                    cursor.execute(f"SET LOCAL hnsw.ef_search = {effort}")
                hits = cursor.execute(query, [vector, *values, vector, k]).fetchall()
                if len(hits) < k and not state.exact:  # a graph looks at so many passages, whether they pass or not
                    cursor.execute("SET LOCAL enable_indexscan = off")
                    hits = cursor.execute(query, [vector, *values, vector, k]).fetchall()
            found.append([Row(id_, docid, _read(own), score=score) for id_, docid, own, score in hits])
        return found

    def words(self, name: str, query: str, k: int, wanted: Filter | None) -> list[Row]:
        """Nothing: no collection is made with BM25."""
        return []

    def passing(self, name: str, ids: Sequence[int], wanted: Filter) -> Sequence[int]:
        """Those of the ids whose passages pass the filter, in any order."""
        passing, values = wanted.sql()
        with self.cursor() as cursor:
            query = f"SELECT id FROM {_quoted(name)} WHERE id = ANY(%s) AND {passing}"
            return [id_ for (id_,) in cursor.execute(query, [list(ids), *values])]

    def get(self, name: str, ids: Sequence[int], *, what: str) -> list[Row]:
        """Passages by id, in any order."""
        with self.cursor() as cursor:
            query = f"SELECT id, {_COLUMNS[what]} FROM {_quoted(name)} WHERE id = ANY(%s)"
            names = ("id", *_COLUMNS[what].split(", "))
            found = [dict(zip(names, row, strict=True)) for row in cursor.execute(query, [list(ids)])]
        return [Row(**{**row, "vector": _read(row["vector"])} if what == "vector" else row) for row in found]

    def is_temporary(self, error: Exception) -> bool:
        """Whether a request that failed so may succeed when it is repeated."""
        return isinstance(error, self._psycopg.OperationalError | self._psycopg.InterfaceError)


def _quoted(name: str) -> str:
    return f'"{name}"'  # an address allows letters, digits and _ alone


def _written(vector: Floats) -> str:
    return str(vector.tolist())


def _read(vector: bytes) -> Floats:
    """A vector as the server sends it: two numbers of two bytes, then big-endian float32."""
    return np.frombuffer(vector, dtype=">f4", offset=4).astype(np.float32)
