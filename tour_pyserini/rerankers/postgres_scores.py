"""Scores in a PostgreSQL database, for processes on several machines; no two of them score the same pair.

A process claims the keys that it is going to score. Others wait for their scores. A claim counts as long as its client
says every few seconds that it lives; the claims of a killed process are free when its lease has run out. Claims that a
client could not give up, because the server was away, are given up when it is back.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.sqlite_scores import StoreStats, is_intact, score_checksum
from tour_pyserini.support.optional import import_optional
from tour_pyserini.support.sqlite_cache import UNKNOWN_MODEL, Model, ModelUse, choose_models

log = logging.getLogger(__name__)

SCHEMES = ("postgresql", "postgres")
LAYOUT_VERSION = 1
LEASE_SECONDS = 30.0
LOST_SECONDS = 60.0
"""How long a server that was lost is tried again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between tries
_TABLES_LOCK = 0x546F7552  # "TouR"; one process at a time creates the tables
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

# While the server was down, no client could say that it lives: all get the time of a lease to do so.
_LIVING = "greatest(expires, least(pg_postmaster_start_time(), now()) + make_interval(secs => %(lease)s)) > now()"
_RELEASE = "DELETE FROM tour_claims WHERE key = ANY(%s) AND client = %s"

Result = TypeVar("Result")


def is_server(location: str | os.PathLike[str]) -> bool:
    """Whether a score cache is named by the address of a server.

    Raises:
        TourError: if it is an address of something else than PostgreSQL.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", str(location))
    if scheme and scheme[1] not in SCHEMES:
        raise TourError(
            f"the score cache {without_password(str(location))} is of an unknown kind; "
            "give a file or postgresql://HOST/DATABASE."
        )
    return bool(scheme)


def without_password(address: str) -> str:
    """The address for messages and records; a path of a file stays as it is.

    Example:
        >>> without_password("postgresql://me:secret@db:5432/scores?sslmode=require&password=secret")
        'postgresql://me@db:5432/scores?sslmode=require'

    Raises:
        TourError: if it cannot be split into its parts.
    """
    if "://" not in address:
        return address
    try:
        scheme, place, path, query, _ = urlsplit(address)
    except ValueError as error:  # the address itself is not shown: nobody knows where its password is
        raise TourError(
            f"the address of the score cache cannot be read ({first_line(error)}); give postgresql://HOST/DATABASE."
        ) from error
    user, at, host = place.rpartition("@")
    options = [(name, value) for name, value in parse_qsl(query) if name not in ("password", "sslpassword")]
    return urlunsplit((scheme, user.partition(":")[0] + at + host, path, urlencode(options, safe="/"), ""))


class PostgresConnection:
    """Runs transactions on a server, one at a time; if the connection is lost, it connects and runs them again.

    A transaction may therefore be run twice: if the connection was lost after it was committed, nobody knows.

    Args:
        address: `postgresql://USER@HOST:PORT/DATABASE`, with all options of libpq.
    """

    def __init__(self, address: str) -> None:
        self.name = without_password(address)
        self._address = address
        self._psycopg = import_optional("psycopg", extra="postgresql")
        self._lock = threading.Lock()
        try:
            self._connection = self._connect()
            self._prepare()
        except (self._psycopg.Error, UnicodeError) as error:
            raise TourError(
                f"the score cache {self.name} cannot be opened ({first_line(error)}); check the address, and that the "
                "server runs."
            ) from error

    def run(self, work: Callable[[Any], Result]) -> Result:
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
                except lost as error:
                    if time.monotonic() > deadline:
                        raise self._failed(error) from error
                    log.info("the score cache %s is tried again (%s)", self.name, first_line(error))
                except self._psycopg.Error as error:
                    raise self._failed(error) from error
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _failed(self, error: Exception) -> TourError:
        return TourError(
            f"the score cache {self.name} cannot be used ({first_line(error)}); "
            "give the same command again when its server works."
        )

    def _connect(self) -> Any:
        # Without these, a server whose machine lost its network would be waited for during hours: keep-alive messages
        # find out while an answer is waited for, the timeout (in milliseconds) if what was sent is not confirmed.
        alive = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
        alive["tcp_user_timeout"] = 25_000
        connection = self._psycopg.connect(self._address, autocommit=True, connect_timeout=10, **alive)
        # What is stored must survive a crash of the server, also where the database's own default is another one.
        connection.execute("SET synchronous_commit = on")
        return connection

    def _prepare(self) -> None:
        """Create the tables if they are not there, and check their layout."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLES_LOCK,))
            if cursor.execute("SELECT to_regclass('tour_layout')").fetchone()[0] is None:
                cursor.execute(_TABLES)
            version = cursor.execute("SELECT version FROM tour_layout").fetchone()
        if version != (LAYOUT_VERSION,):
            raise TourError(
                f"the score cache {self.name} has layout {version and version[0]}, but this version reads layout "
                f"{LAYOUT_VERSION}; give another database."
            )


class PostgresScores:
    """Raw logits by key in a PostgreSQL database; the tables have names that begin with `tour_`.

    Each `put` is one transaction that the server has written to its disk when it returns: neither a killed client nor a
    killed server loses what was put.

    Example:
        >>> with PostgresScores("postgresql://db.example.org/scores") as store:  # doctest: +SKIP
        ...     store.put({b"key": 1.5})
    """

    def __init__(self, address: str, model: Model | None = None, *, lease: float = LEASE_SECONDS) -> None:
        """Connect for the scores of one model; missing tables are created.

        Args:
            address: `postgresql://USER@HOST:PORT/DATABASE`.
            model: whose scores they are.
            lease: seconds after which the claims of a client that was killed are free.
        """
        self._model, self._lease = model, lease
        self._connection = PostgresConnection(address)
        self.name = self._connection.name
        self._lock, self._releasing = threading.Lock(), threading.Lock()
        self._claimed: set[bytes] = set()
        self._unreleased: set[bytes] = set()  # those of them that nobody scores, and the server may still have
        self._warned = False
        self._client: int = self._connection.run(self._enter)
        self._closed = threading.Event()
        self._living = PostgresConnection(address)
        self._thread = threading.Thread(target=self._keep_claims, daemon=True)
        self._thread.start()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """Read the scores of those keys that are stored; a damaged row is deleted and counts as not stored."""
        wanted = sorted(keys)
        scores: dict[bytes, float] = {}
        damaged: list[tuple[bytes, Any]] = []
        for start in range(0, len(wanted), _ROWS):
            rows = self._connection.run(partial(_select, keys=wanted[start : start + _ROWS]))
            for key, logit, model, checksum in rows:
                if is_intact(bytes(key), logit, model, checksum):
                    scores[bytes(key)] = logit
                else:
                    damaged.append((key, checksum))
        if damaged:
            log.warning("%d damaged scores in the score cache %s are computed again", len(damaged), self.name)
            delete = "DELETE FROM tour_scores WHERE key = %s AND checksum = %s"
            self._connection.run(lambda cursor: cursor.executemany(delete, damaged))
        return scores

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store all of the scores or none; a key that is already stored keeps its score.

        If the server does not come back for a minute, the caller can still use them: that is a warning, not an error,
        and it is given once.
        """

        def write(cursor: Any) -> None:
            model = use_model(cursor, self._model)
            rows = [(key, logit, model, score_checksum(key, logit, model)) for key, logit in sorted(scores.items())]
            insert = "INSERT INTO tour_scores VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
            cursor.executemany(insert, rows)
            cursor.execute(_RELEASE, (list(scores), self._client))

        try:
            self._connection.run(write)
        except BaseException as error:
            self._release_later(scores)
            if not isinstance(error, TourError):
                raise
            if not self._warned:
                log.warning("%d scores could not be stored: %s", len(scores), error)
            self._warned = True
        else:
            self._forget(scores)

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        """Those of the keys that this caller is to score now; the others are stored, or somebody else scores them."""
        if self._unreleased:
            self._release(self._connection)
        with self._lock:  # other threads of this process have claimed some
            wanted = [key for key in keys if key not in self._claimed]
            self._claimed.update(wanted)
        try:
            claimed: set[bytes] = self._connection.run(lambda cursor: self._claim(cursor, wanted))
        except BaseException:  # if the connection was lost, nobody knows whether the server has the claims
            self._release_later(wanted)
            raise
        self._forget(key for key in wanted if key not in claimed)
        return claimed

    def release(self, keys: Sequence[bytes]) -> None:
        """Give up keys that were claimed and will not be scored; if the server is away, when it is back."""
        self._release_later(keys)
        try:
            self._release(self._connection)
        except TourError as error:
            log.info("%d claims are given up later: %s", len(keys), error)

    def stats(self) -> StoreStats:
        """Count the scores, and the bytes of their table."""
        query = "SELECT count(*), pg_total_relation_size('tour_scores') FROM tour_scores"
        count, size = self._connection.run(lambda cursor: cursor.execute(query).fetchone())
        return StoreStats(count, size)

    def close(self) -> None:
        """Give up all claims and close the connection."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._connection.run(self._leave)
        self._thread.join()
        self._connection.close()

    def __enter__(self) -> "PostgresScores":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self, cursor: Any) -> int:
        """Record the use of the model and this client; those that have not lived for a day are forgotten."""
        now = int(time.time())
        number = use_model(cursor, self._model)
        if number != UNKNOWN_MODEL:
            cursor.execute("UPDATE tour_models SET last_used = %s WHERE id = %s", (now, number))
        cursor.execute("DELETE FROM tour_clients WHERE expires < now() - interval '1 day'")
        cursor.execute("DELETE FROM tour_claims WHERE client NOT IN (SELECT id FROM tour_clients)")
        enter = "INSERT INTO tour_clients (expires) VALUES (now() + make_interval(secs => %s)) RETURNING id"
        return cursor.execute(enter, (self._lease,)).fetchone()[0]

    def _leave(self, cursor: Any) -> None:
        cursor.execute("DELETE FROM tour_claims WHERE client = %s", (self._client,))
        cursor.execute("DELETE FROM tour_clients WHERE id = %s", (self._client,))

    def _claim(self, cursor: Any, keys: Sequence[bytes]) -> set[bytes]:
        self._live(cursor)
        # Sorted: two clients that want the same keys take them in the same order, and never wait for each other.
        rows = cursor.execute(
            "INSERT INTO tour_claims SELECT key, %(client)s FROM unnest(%(keys)s::bytea[]) AS wanted (key) ORDER BY key"
            " ON CONFLICT (key) DO UPDATE SET client = excluded.client WHERE tour_claims.client = excluded.client OR "
            f"NOT EXISTS (SELECT FROM tour_clients WHERE id = tour_claims.client AND {_LIVING}) RETURNING key",
            {"client": self._client, "keys": list(keys), "lease": self._lease},
        ).fetchall()
        claimed = {bytes(key) for (key,) in rows}
        # This statement sees what others have stored until now: a claim that was just given up has its score there.
        rows = cursor.execute("SELECT key FROM tour_scores WHERE key = ANY(%s)", (list(claimed),)).fetchall()
        stored = {bytes(key) for (key,) in rows}
        cursor.execute(_RELEASE, (list(stored), self._client))
        return claimed - stored

    def _live(self, cursor: Any) -> None:
        """Say that this client lives."""
        cursor.execute(
            "INSERT INTO tour_clients VALUES (%s, now() + make_interval(secs => %s)) "
            "ON CONFLICT (id) DO UPDATE SET expires = excluded.expires",
            (self._client, self._lease),
        )

    def _keep_claims(self) -> None:
        """Say regularly that this client lives, on a connection of its own: a model may compute for minutes."""
        while not self._closed.wait(self._lease / 3):
            try:
                self._living.run(self._live)
                self._release(self._living)
            except TourError as error:
                log.info("%s", error)
        self._living.close()

    def _release_later(self, keys: Iterable[bytes]) -> None:
        with self._lock:
            self._unreleased.update(keys)

    def _release(self, connection: PostgresConnection) -> None:
        """Give up the claims on keys that nobody scores; no thread of this process claims them before that is done."""
        with self._releasing:
            with self._lock:
                keys = list(self._unreleased)
            if keys:
                connection.run(lambda cursor: cursor.execute(_RELEASE, (keys, self._client)))
            with self._lock:
                self._unreleased.difference_update(keys)
                self._claimed.difference_update(keys)

    def _forget(self, keys: Iterable[bytes]) -> None:
        with self._lock:
            self._claimed.difference_update(keys)


class PostgresCache:
    """A score cache in a database that is shown, pruned and merged.

    Args:
        address: `postgresql://HOST/DATABASE`.
    """

    rows = "scores"

    def __init__(self, address: str) -> None:
        self._connection = PostgresConnection(address)
        self.name = self._connection.name

    def models(self) -> list[ModelUse]:
        """Count the scores of each model, in order of first use."""
        return self._connection.run(_models)

    def size(self) -> int:
        """Bytes of the table of scores and its index, on the server's disk."""
        query = "SELECT pg_total_relation_size('tour_scores')"
        return self._connection.run(lambda cursor: cursor.execute(query).fetchone()[0])

    def prune(
        self, *, models: Sequence[str] = (), unused_for: float | None = None, dry_run: bool = False
    ) -> list[ModelUse]:
        """Remove the scores of some models, as `CacheFile.prune` does."""

        def work(cursor: Any) -> list[ModelUse]:
            chosen = choose_models(_models(cursor), models, unused_for, rows=self.rows, where=self.name)
            if not dry_run:
                numbers = [use.number for use in chosen]
                cursor.execute("DELETE FROM tour_scores WHERE model = ANY(%s)", (numbers,))
                cursor.execute("DELETE FROM tour_models WHERE id = ANY(%s) AND id <> %s", (numbers, UNKNOWN_MODEL))
            return chosen

        return self._connection.run(work)

    def scores(self) -> Iterator[tuple[str, str, bytes, float]]:
        """The fingerprint and the name of the model, the key and the logit of every score, sorted by key.

        Raises:
            TourError: at a score that was never written as it is.
        """
        after = b""
        while True:  # pages by key: a lost connection does not start again from the first
            page = self._connection.run(partial(_page, after=after))
            for fingerprint, name, key, logit, model, checksum in page:
                if not is_intact(bytes(key), logit, model, checksum):
                    raise TourError(
                        f"the score cache {self.name} is damaged (the score {bytes(key).hex()} has a wrong checksum); "
                        "search again, or delete that score."
                    )
                yield fingerprint, name, bytes(key), logit
            if len(page) < _ROWS:
                return
            after = page[-1][2]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _select(cursor: Any, *, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
    query = "SELECT key, logit, model, checksum FROM tour_scores WHERE key = ANY(%s)"
    return cursor.execute(query, (keys,)).fetchall()


def use_model(cursor: Any, model: Model | None) -> int:
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


def _page(cursor: Any, *, after: bytes) -> list[tuple[Any, ...]]:
    query = (
        "SELECT fingerprint, name, key, logit, model, checksum FROM tour_scores JOIN tour_models ON id = model "
        "WHERE key > %s ORDER BY key LIMIT %s"
    )
    return cursor.execute(query, (after, _ROWS)).fetchall()


def _models(cursor: Any) -> list[ModelUse]:
    rows = cursor.execute(
        "SELECT id, fingerprint, name, first_used, last_used, coalesce(count, 0) FROM tour_models LEFT JOIN "
        "(SELECT model, count(*) AS count FROM tour_scores GROUP BY model) AS counted ON model = id "
        "ORDER BY first_used, id"
    ).fetchall()
    return [use for use in (ModelUse(*row) for row in rows) if use.number != UNKNOWN_MODEL or use.rows]
