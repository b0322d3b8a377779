"""Whose the scores in a file are."""

import sqlite3
import time
from typing import NamedTuple

from tour_pyserini.rerankers.score_file import NOBODY


class Model(NamedTuple):
    """What tells a re-ranker from all others, and what people call it."""

    fingerprint: str
    name: str


class ModelUse(NamedTuple):
    """How much is kept of a model's scores, and when they were asked for first and last (seconds since 1970).

    The fingerprint and the name of scores whose model is not known, because they were kept before models were noted
    down, are empty until somebody asks for them again.
    """

    number: int
    fingerprint: str
    name: str
    first_used: int
    last_used: int
    scores: int


def registered(connection: sqlite3.Connection, model: Model | None) -> int:
    """The model's number, with a note that it was used now."""
    if model is None:
        return NOBODY
    now = int(time.time())
    connection.execute(
        "INSERT INTO models (fingerprint, name, first_used, last_used) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (fingerprint) DO UPDATE SET name = excluded.name, last_used = excluded.last_used",
        (*model, now, now),
    )
    ((number,),) = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,)).fetchall()
    return number


def uses(connection: sqlite3.Connection) -> list[ModelUse]:
    """The models of a file, in the order in which they were first used; the unknown one only where it has scores."""
    rows = connection.execute(
        "SELECT id, fingerprint, name, first_used, last_used, ifnull(scores, 0) FROM models "
        "LEFT JOIN (SELECT model, count(*) AS scores FROM scores GROUP BY model) ON model = id ORDER BY first_used, id"
    ).fetchall()
    found = [ModelUse(*row) for row in rows]
    return [use for use in found if use.number != NOBODY or use.scores]
