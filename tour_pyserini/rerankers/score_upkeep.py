"""Maintenance of a score file: statistics per model, verification, pruning and export."""

import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.score_file import NOBODY, connect, is_damage, transaction
from tour_pyserini.support.files import check_output, written_whole


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


logger = logging.getLogger(__name__)

KEY_BYTES = 16
UNKNOWN = "unknown"
_FAULTS = {
    f"keys that are not of {KEY_BYTES} bytes": f"typeof(key) <> 'blob' OR length(key) <> {KEY_BYTES}",
    "scores that are not finite": "typeof(logit) <> 'real' OR abs(logit) > 1.7976931348623157e308",
    "scores of no model": "model NOT IN (SELECT id FROM models)",
}
_DAY = 86_400  # seconds


def survey(path: Path) -> list[ModelUse]:
    """What a file holds, by model."""
    with opened(path) as connection:
        return uses(connection)


def verify(path: Path) -> int:
    """The number of scores in a file that is sound.

    Raises:
        TourError: when the file is damaged or holds what no re-ranker can have put there.
    """
    with opened(path) as connection:
        ((verdict,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if verdict != "ok":
            raise _damaged(path, verdict)
        for fault, condition in _FAULTS.items():
            ((count,),) = connection.execute(f"SELECT count(*) FROM scores WHERE {condition}").fetchall()
            if count:
                raise _damaged(path, f"{count} {fault}")
        ((total,),) = connection.execute("SELECT count(*) FROM scores").fetchall()
        return total


def prune(
    path: Path, *, models: Sequence[str] = (), unused_for: float | None = None, dry_run: bool = False
) -> list[ModelUse]:
    """Remove the scores of some models and give the space back.

    Args:
        path: the file.
        models: names, or beginnings of fingerprints, or "unknown"; none: all models.
        unused_for: only models that nobody used for so many days.
        dry_run: remove nothing.

    Returns:
        What was, or would be, removed.
    """
    if not models and unused_for is None:
        raise TourError("nothing says which scores may go; name models, or how long they were not used.")
    with opened(path) as connection:
        with transaction(connection):
            gone = _chosen(uses(connection), models, unused_for, path)
            if not dry_run:
                numbers = [(use.number,) for use in gone]
                connection.executemany("DELETE FROM scores WHERE model = ?", numbers)
                connection.executemany(f"DELETE FROM models WHERE id = ? AND id <> {NOBODY}", numbers)
        if gone and not dry_run:
            _give_space_back(connection, path)
    return gone


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that is there; whatever is wrong with it is a TourError."""
    if not path.is_file():
        raise TourError(f"there is no score cache {path}; name another file.")
    try:
        connection = connect(path)
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.DatabaseError) and is_damage(error):
            raise _damaged(path, str(error)) from error
        raise TourError(f"the score cache {path} cannot be used ({error}); try again when nobody else does.") from error


def _damaged(path: Path, what: str) -> TourError:
    reason = what.splitlines()[-1]
    return TourError(f"the score cache {path} is damaged ({reason}); move it away, and its scores are made again.")


def _chosen(found: list[ModelUse], models: Sequence[str], unused_for: float | None, path: Path) -> list[ModelUse]:
    def named(use: ModelUse, model: str) -> bool:
        if use.number == NOBODY:
            return model == UNKNOWN
        return use.name == model or (bool(model) and use.fingerprint.startswith(model))

    for model in models:
        if not any(named(use, model) for use in found):
            raise TourError(f"{path} holds no scores of a model {model!r}; `stats` lists those it has.")
    latest = time.time() - unused_for * _DAY if unused_for is not None else float("inf")
    return [use for use in found if use.last_used <= latest and (not models or any(named(use, one) for one in models))]


def _give_space_back(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        logger.warning("the scores are gone, but %s keeps its size for now (%s)", path, error)


def export(path: Path, output: str | os.PathLike[str]) -> int:
    """Write every score as a JSON line (`model`: fingerprint or null, `key`, `logit`), by key; how many there were."""
    check_output(output, [path])
    count = 0
    with opened(path) as connection, written_whole(output) as file:
        rows = connection.execute(
            "SELECT fingerprint, hex(key), logit FROM scores LEFT JOIN models ON id = model ORDER BY key"
        )
        for fingerprint, key, logit in rows:
            record = {"model": fingerprint or None, "key": key.lower(), "logit": logit}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count
