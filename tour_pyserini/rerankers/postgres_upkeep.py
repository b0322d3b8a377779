"""Maintenance of a score cache in a PostgreSQL database."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.postgres_connection import PostgresConnection
from tour_pyserini.rerankers.score_file import KEY_BYTES, score_checksum
from tour_pyserini.support.kept_file import UNKNOWN_MODEL
from tour_pyserini.support.kept_upkeep import ModelUse, chosen_models

_ROWS = 10_000  # fetched at a time


class PostgresUpkeep:
    """What `cache` does with a score cache in a database.

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

    def verify(self) -> int:
        """Check every score, and return the number of scores."""
        return sum(1 for _ in self.scores())

    def prune(
        self, *, models: Sequence[str] = (), unused_for: float | None = None, dry_run: bool = False
    ) -> list[ModelUse]:
        """Remove the scores of some models, as `support.kept_upkeep.prune` does."""

        def work(cursor: Any) -> list[ModelUse]:
            chosen = chosen_models(_models(cursor), models, unused_for, rows=self.rows, where=self.name)
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
        for fingerprint, name, key, logit, model, checksum in self._rows():
            right = len(key) == KEY_BYTES and math.isfinite(logit) and checksum == score_checksum(key, logit, model)
            if not right:
                raise TourError(
                    f"the score cache {self.name} is damaged (the score {key.hex()} has a wrong checksum); search "
                    "again, or delete that score."
                )
            yield fingerprint, name, key, logit

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self) -> Iterator[tuple[str, str, bytes, float, int, int]]:
        after = b""
        while True:  # pages by key: a lost connection does not start again from the first
            page = self._connection.run(partial(_page, after=after))
            for fingerprint, name, key, logit, model, checksum in page:
                yield fingerprint, name, bytes(key), logit, model, checksum
            if len(page) < _ROWS:
                return
            after = page[-1][2]


def _page(cursor: Any, *, after: bytes) -> list[tuple[Any, ...]]:
    query = (
        "SELECT fingerprint, name, key, logit, model, checksum FROM tour_scores JOIN tour_models ON id = model "
        "WHERE key > %s ORDER BY key LIMIT %s"
    )
    return cursor.execute(query, (after, _ROWS)).fetchall()


@contextmanager
def postgres_upkeep(address: str) -> Iterator[PostgresUpkeep]:
    """Connect for the time of a block."""
    upkeep = PostgresUpkeep(address)
    try:
        yield upkeep
    finally:
        upkeep.close()


def _models(cursor: Any) -> list[ModelUse]:
    rows = cursor.execute(
        "SELECT id, fingerprint, name, first_used, last_used, coalesce(count, 0) FROM tour_models LEFT JOIN "
        "(SELECT model, count(*) AS count FROM tour_scores GROUP BY model) AS counted ON model = id "
        "ORDER BY first_used, id"
    ).fetchall()
    return [use for use in (ModelUse(*row) for row in rows) if use.number != UNKNOWN_MODEL or use.rows]
