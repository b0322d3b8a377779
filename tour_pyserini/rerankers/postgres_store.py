"""Scores in a PostgreSQL database, for processes on several machines; no two of them score the same pair.

A process claims the keys that it is going to score. Others wait for their scores. A claim counts as long as its client
says every few seconds that it lives; the claims of a killed process are free when its lease has run out. Claims that a
client could not give up, because the server was away, are given up when it is back.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.postgres_connection import PostgresConnection
from tour_pyserini.rerankers.score_file import score_checksum
from tour_pyserini.rerankers.score_store import StoreStats
from tour_pyserini.support.kept_file import UNKNOWN_MODEL, Model

log = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
_KEYS = 10_000  # per statement


class PostgresStore:
    """Raw logits by key in a PostgreSQL database; the tables have names that begin with `tour_`.

    Each `put` is one transaction that the server has written to its disk when it returns: neither a killed client nor a
    killed server loses what was put.

    Example:
        >>> with PostgresStore("postgresql://db.example.org/scores") as store:  # doctest: +SKIP
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
        keys = sorted(keys)
        scores: dict[bytes, float] = {}
        damaged: list[tuple[bytes, Any]] = []
        for start in range(0, len(keys), _KEYS):
            for key, logit, model, checksum in self._connection.run(partial(_rows, keys=keys[start : start + _KEYS])):
                if math.isfinite(logit) and checksum == score_checksum(bytes(key), logit, model):
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

    def __enter__(self) -> "PostgresStore":
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


# While the server was down, no client could say that it lives: all get the time of a lease to do so.
_LIVING = "greatest(expires, least(pg_postmaster_start_time(), now()) + make_interval(secs => %(lease)s)) > now()"
_RELEASE = "DELETE FROM tour_claims WHERE key = ANY(%s) AND client = %s"


def _rows(cursor: Any, *, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
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
