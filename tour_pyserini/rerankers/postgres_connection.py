"""A connection to a PostgreSQL server that is made again when it is lost, and the tables of a score cache there."""

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.optional import import_optional

log = logging.getLogger(__name__)

SCHEMES = ("postgresql", "postgres")
LAYOUT_VERSION = 1
LOST_SECONDS = 60.0
"""How long a server that was lost is tried again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between tries
_TABLES_LOCK = 0x546F7552  # "TouR"; one process at a time creates the tables

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
