"""Scores in a PostgreSQL database, for processes on several machines; no two of them score the same pair.

A process claims the keys that it is going to score; others wait for their scores. A claim counts as long as its client
is connected: each client holds an advisory lock of the server, which ends with its connection, however that ends.
"""

import logging
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.packages import import_optional
from tour_pyserini.support.sqlite_cache import UNKNOWN_MODEL, Model, ModelUse, choose_models

log = logging.getLogger(__name__)

LAYOUT_VERSION = 1
LOST_SECONDS = 60.0
"""How long a server that was lost is tried again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between tries
_LOCK = 0x546F7552  # "TouR": the lock under which the tables are created, and the class of the clients' locks
_ROWS = 10_000  # per statement

_TABLES = """
CREATE TABLE tour_layout (version integer NOT NULL);
INSERT INTO tour_layout VALUES (1);
CREATE TABLE tour_models (id serial PRIMARY KEY, fingerprint text NOT NULL UNIQUE, name text NOT NULL,
    first_used bigint NOT NULL, last_used bigint NOT NULL);
INSERT INTO tour_models VALUES (0, '', '', extract(epoch FROM now())::bigint, extract(epoch FROM now())::bigint);
CREATE TABLE tour_scores (key bytea PRIMARY KEY, logit double precision NOT NULL,
    model integer NOT NULL REFERENCES tour_models, checksum bigint NOT NULL);
CREATE TABLE tour_clients (id bigserial PRIMARY KEY, expires timestamptz NOT NULL);
CREATE TABLE tour_claims (key bytea PRIMARY KEY, client bigint NOT NULL);
"""
_CONNECTED = (
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND "
    f"classid = {_LOCK} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

_PACKED = struct.Struct("<dq")

Result = TypeVar("Result")


def score_checksum(key: bytes, logit: float, model: int) -> int:
    """A checksum of a row of scores, in PostgreSQL and in SQLite."""
    return zlib.crc32(key + _PACKED.pack(logit + 0.0, model))  # SQLite stores -0.0 as 0.0


def without_password(address: str) -> str:
    """The address for messages and records; a path of a file stays as it is.

    Example:
        >>> without_password("postgresql://me:secret@db:5432/scores?sslmode=require&password=secret")
        'postgresql://me@db:5432/scores?sslmode=require'
    """
    if "://" not in address:
        return address
    try:
        scheme, place, path, query, fragment = urlsplit(address)
        # An unescaped /, ? or # ends the place in the middle of a password.
        whole = not fragment and "@" not in path + query.partition("=")[0]
    except ValueError:
        whole = False
    if not whole:  # neither the address nor the error is shown: nobody knows where its password is
        raise TourError(
            "the address of the score cache cannot be read; give postgresql://HOST/DATABASE, with special characters "
            "of a password percent-encoded."
        )
    user, at, host = place.rpartition("@")
    options = [(name, value) for name, value in parse_qsl(query) if name not in ("password", "sslpassword")]
    shown = f"{scheme}://{user.partition(':')[0]}{at}{host}{path}"  # with both slashes where there is no host
    return f"{shown}?{urlencode(options, safe='/')}" if options else shown


class PostgresScores:
    """Raw logits by key in a PostgreSQL database; the tables have names that begin with `tour_`.

    Each `put` is one transaction that the server has written to its disk when it returns: neither a killed client nor a
    killed server loses what was put. If the connection is lost, a transaction is run again on a new one, and may be run
    twice: nobody knows whether it was committed. The claims of the lost connection are free then.

    Args:
        address: `postgresql://USER@HOST:PORT/DATABASE`, with all options of libpq; missing tables are created.
        model: whose scores are put.

    Example:
        >>> with PostgresScores("postgresql://db.example.org/scores") as store:  # doctest: +SKIP
        ...     store.put({b"key": 1.5})
    """

    rows = "scores"

    def __init__(self, address: str, model: Model | None = None) -> None:
        self.name = without_password(address)
        self._address, self._model = address, model
        self._psycopg = import_optional("psycopg", extra="postgresql")
        self._lock = threading.Lock()
        self._warned = False
        try:
            self._connection = self._connect()
        except (self._psycopg.Error, UnicodeError) as error:
            raise TourError(f"the score cache {self.name} cannot be opened ({first_line(error)}).") from error

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """Read the scores of those keys that are stored."""
        wanted = sorted(keys)
        query = "SELECT key, logit FROM tour_scores WHERE key = ANY(%s)"
        parts = [self._fetch(query, wanted[start : start + _ROWS]) for start in range(0, len(wanted), _ROWS)]
        return {bytes(key): logit for part in parts for key, logit in part}

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store all of the scores or none; a key that is already stored keeps its score.

        If the server does not come back for a minute, the caller can still use them: that is a warning, not an error,
        and it is given once.
        """

        def write(cursor: Any) -> None:
            model = _use_model(cursor, self._model)
            rows = [(key, logit, model, score_checksum(key, logit, model)) for key, logit in sorted(scores.items())]
            cursor.executemany("INSERT INTO tour_scores VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING", rows)
            self._release(cursor, list(scores))

        try:
            self._run(write)
        except TourError as error:
            if not self._warned:
                log.warning("%d scores could not be written: %s", len(scores), error)
            self._warned = True

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        """Those of the keys that this caller is to score now; the others are stored, or somebody else scores them."""

        def take(cursor: Any) -> set[bytes]:
            # Sorted: two clients that want the same keys take them in the same order, and never wait for each other.
            rows = cursor.execute(
                "INSERT INTO tour_claims SELECT key, %s FROM unnest(%s::bytea[]) AS wanted (key) ORDER BY key ON "
                "CONFLICT (key) DO UPDATE SET client = excluded.client "
                f"WHERE tour_claims.client NOT IN ({_CONNECTED}) RETURNING key",
                (self._client, list(keys)),
            ).fetchall()
            claimed = {bytes(key) for (key,) in rows}
            # This statement sees what others have stored until now: a claim that was just given up has its score there.
            rows = cursor.execute("SELECT key FROM tour_scores WHERE key = ANY(%s)", (list(claimed),)).fetchall()
            stored = {bytes(key) for (key,) in rows}
            self._release(cursor, list(stored))
            return claimed - stored

        return self._run(take)

    def release(self, keys: Sequence[bytes]) -> None:
        """Give up keys that were claimed and will not be scored; a server that is away has forgotten them."""
        try:
            self._run(lambda cursor: self._release(cursor, list(keys)))
        except TourError as error:
            log.info("%d claims end with the connection: %s", len(keys), error)

    def count(self) -> int:
        """The number of scores."""
        return self._fetch("SELECT count(*) FROM tour_scores")[0][0]

    def size(self) -> int:
        """Bytes of the table of scores and its index, on the server's disk."""
        return self._fetch("SELECT pg_total_relation_size('tour_scores')")[0][0]

    def models(self) -> list[ModelUse]:
        """Count the scores of each model, in order of first use."""
        rows = self._fetch(
            "SELECT id, fingerprint, name, first_used, last_used, coalesce(count, 0) FROM tour_models LEFT JOIN "
            "(SELECT model, count(*) AS count FROM tour_scores GROUP BY model) AS counted ON model = id "
            "ORDER BY first_used, id"
        )
        return [use for use in (ModelUse(*row) for row in rows) if use.number != UNKNOWN_MODEL or use.rows]

    def prune(
        self, *, models: Sequence[str] = (), unused_for: float | None = None, dry_run: bool = False
    ) -> list[ModelUse]:
        """Remove the scores of some models, as `SqliteCache.prune` does."""
        chosen = choose_models(self, models, unused_for)
        numbers = [use.number for use in chosen]

        def remove(cursor: Any) -> None:
            cursor.execute("DELETE FROM tour_scores WHERE model = ANY(%s)", (numbers,))
            cursor.execute("DELETE FROM tour_models WHERE id = ANY(%s) AND id <> %s", (numbers, UNKNOWN_MODEL))

        if not dry_run:
            self._run(remove)
        return chosen

    def scores(self) -> Iterator[tuple[Model, bytes, float]]:
        """The model, the key and the logit of every score, sorted by key."""
        query = (
            "SELECT fingerprint, name, key, logit FROM tour_scores JOIN tour_models ON id = model "
            f"WHERE key > %s ORDER BY key LIMIT {_ROWS}"
        )
        after = b""
        while page := self._fetch(query, after):  # pages by key: a lost connection does not start again from the first
            yield from ((Model(fingerprint, name), bytes(key), logit) for fingerprint, name, key, logit in page)
            after = page[-1][2]

    def close(self) -> None:
        """Give up all claims and close the connection."""
        with self._lock, suppress(self._psycopg.Error):  # a server that is away has forgotten them
            self._connection.execute("DELETE FROM tour_claims WHERE client = %s", (self._client,))
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "PostgresScores":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._run(lambda cursor: cursor.execute(query, values).fetchall())

    def _run(self, work: Callable[[Any], Result]) -> Result:
        """`work(cursor)` in one transaction.

        Raises:
            TourError: when the server refuses the work, or does not come back for a minute.
        """
        lost = self._psycopg.OperationalError, self._psycopg.InterfaceError, self._psycopg.errors.ForeignKeyViolation
        pause, deadline = _FIRST_PAUSE, time.monotonic() + LOST_SECONDS
        with self._lock:
            while True:
                try:
                    if self._connection.closed:
                        self._connection = self._connect()
                    with self._connection.transaction(), self._connection.cursor() as cursor:
                        return work(cursor)
                except self._psycopg.Error as error:
                    if not isinstance(error, lost) or time.monotonic() > deadline:
                        reason = f"{first_line(error)}); run the command again when its server works."
                        raise TourError(f"the score cache {self.name} cannot be used ({reason}") from error
                    log.info("the score cache %s is tried again (%s)", self.name, first_line(error))
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _connect(self) -> Any:
        # Without these, a peer whose machine lost its network would be waited for during hours: keep-alive messages
        # find out while an answer is waited for, the timeout (in milliseconds) if what was sent is not confirmed.
        alive = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
        alive["tcp_user_timeout"] = 25_000
        connection = self._psycopg.connect(self._address, autocommit=True, connect_timeout=10, **alive)
        for name, value in (("idle", 10), ("interval", 5), ("count", 3)):
            connection.execute(f"SET tcp_keepalives_{name} = {value}")
        # What is stored must survive a crash of the server, also where the database's own default is another one.
        connection.execute("SET synchronous_commit = on")
        with connection.transaction(), connection.cursor() as cursor:
            self._prepare(cursor)
        return connection

    def _prepare(self, cursor: Any) -> None:
        """Create the tables if they are not there, check their layout, and enter as a client with its lock."""
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if cursor.execute("SELECT to_regclass('tour_layout')").fetchone()[0] is None:
            cursor.execute(_TABLES)
        version = cursor.execute("SELECT version FROM tour_layout").fetchone()
        if version != (LAYOUT_VERSION,):
            found = f"has layout {version and version[0]}, but this version reads layout {LAYOUT_VERSION}"
            raise TourError(f"the score cache {self.name} {found}; give another database.")
        number = _use_model(cursor, self._model)
        cursor.execute("UPDATE tour_models SET last_used = %s WHERE id = %s", (int(time.time()), number))
        cursor.execute(f"DELETE FROM tour_clients WHERE id NOT IN ({_CONNECTED})")
        cursor.execute("DELETE FROM tour_claims WHERE client NOT IN (SELECT id FROM tour_clients)")
        enter = "INSERT INTO tour_clients (expires) VALUES (now() + interval '1 day') RETURNING id"
        self._client = cursor.execute(enter).fetchone()[0]
        cursor.execute("SELECT pg_advisory_lock(%s, %s::integer)", (_LOCK, self._client))

    def _release(self, cursor: Any, keys: list[bytes]) -> None:
        cursor.execute("DELETE FROM tour_claims WHERE key = ANY(%s) AND client = %s", (keys, self._client))


def _use_model(cursor: Any, model: Model | None) -> int:
    """The number of a model in the database; it is added if it is not there."""
    if model is None or not model.fingerprint:
        return UNKNOWN_MODEL
    find = "SELECT id FROM tour_models WHERE fingerprint = %s"
    if found := cursor.execute(find, (model.fingerprint,)).fetchone():
        return found[0]
    now = int(time.time())
    name = model.name.encode("utf-8", "replace").decode().replace("\0", "")
    cursor.execute(
        "INSERT INTO tour_models (fingerprint, name, first_used, last_used) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (fingerprint) DO NOTHING",
        (model.fingerprint, name, now, now),
    )
    return cursor.execute(find, (model.fingerprint,)).fetchone()[0]
