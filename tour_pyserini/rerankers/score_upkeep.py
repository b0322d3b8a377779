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
from tour_pyserini.rerankers.score_file import KEY_BYTES, UNKNOWN_MODEL, connect, is_busy, is_damage, transaction
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)

UNKNOWN = "unknown"
"""The name under which users choose scores whose model was not recorded."""

_SECONDS_PER_DAY = 86_400
_MODEL_COLUMNS = "id, fingerprint, name, first_used, last_used"
_FAULTS = {
    f"keys that do not have {KEY_BYTES} bytes": f"scores WHERE typeof(key) <> 'blob' OR length(key) <> {KEY_BYTES}",
    "scores that are not finite": "scores WHERE typeof(logit) <> 'real' OR abs(logit) > 1.7976931348623157e308",
    "scores without a model": "scores WHERE model NOT IN (SELECT id FROM models)",
    "scores with a wrong checksum": "scores WHERE checksum IS NOT score_checksum(key, logit, model)",
    "models with a wrong checksum": f"models WHERE checksum IS NOT model_checksum({_MODEL_COLUMNS})",
}


class ModelUse(NamedTuple):
    """The number of stored scores of a model, and when the model was first and last used (seconds since 1970).

    Scores from layout 1 of the file have no recorded model: their fingerprint and name are empty until a re-ranker
    asks for them again.
    """

    number: int
    fingerprint: str
    name: str
    first_used: int
    last_used: int
    scores: int


def scores_by_model(path: Path) -> list[ModelUse]:
    """Count the scores of each model in a file, in order of first use."""
    with _open_existing(path) as connection:
        return _model_uses(connection)


def verify(path: Path) -> int:
    """Check the file and the checksum of every score in it, and return the number of scores.

    Raises:
        TourError: when the file is damaged or holds entries that no re-ranker can have written.
    """
    with _open_existing(path) as connection:
        ((verdict,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if verdict != "ok":
            raise _damaged(path, verdict)
        for fault, condition in _FAULTS.items():
            ((count,),) = connection.execute(f"SELECT count(*) FROM {condition}").fetchall()
            if count:
                raise _damaged(path, f"{count} {fault}")
        ((total,),) = connection.execute("SELECT count(*) FROM scores").fetchall()
        return total


def prune(
    path: Path, *, models: Sequence[str] = (), unused_for: float | None = None, dry_run: bool = False
) -> list[ModelUse]:
    """Remove the scores of some models and make the file smaller.

    Args:
        path: the file.
        models: names, or beginnings of fingerprints, or "unknown"; none: all models.
        unused_for: only models that were not used for this number of days.
        dry_run: remove nothing.

    Returns:
        The models whose scores were removed, or would be removed.
    """
    if not models and unused_for is None:
        raise TourError("no scores were chosen for removal; name models, or say how many days they were not used.")
    with _open_existing(path) as connection:
        with transaction(connection):
            chosen = _chosen(_model_uses(connection), models, unused_for, path)
            if not dry_run:
                numbers = [(use.number,) for use in chosen]
                connection.executemany("DELETE FROM scores WHERE model = ?", numbers)
                connection.executemany(f"DELETE FROM models WHERE id = ? AND id <> {UNKNOWN_MODEL}", numbers)
        if chosen and not dry_run:
            _shrink(connection, path)
    return chosen


def export(path: Path, output: str | os.PathLike[str]) -> int:
    """Write every score as a JSON line (`model`: fingerprint or null, `key`, `logit`), sorted by key.

    Returns:
        The number of scores.
    """
    check_output(output, [path])
    count = 0
    with _open_existing(path) as connection, atomic_write(output) as file:
        rows = connection.execute(
            "SELECT fingerprint, hex(key), logit FROM scores LEFT JOIN models ON id = model ORDER BY key"
        )
        for fingerprint, key, logit in rows:
            record = {"model": fingerprint or None, "key": key.lower(), "logit": logit}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


@contextmanager
def _open_existing(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file that must exist; errors of SQLite become a TourError."""
    if not path.is_file():
        raise TourError(f"the score cache {path} does not exist; give the path of an existing one.")
    try:
        connection = connect(path)
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.DatabaseError) and is_damage(error):
            raise _damaged(path, str(error)) from error
        advice = "try again when no other process uses it" if is_busy(error) else "make room on its disk, or delete it"
        raise TourError(f"the score cache {path} cannot be used ({error}); {advice}.") from error


def _damaged(path: Path, what: str) -> TourError:
    reason = what.splitlines()[-1]
    return TourError(f"the score cache {path} is damaged ({reason}); rename or delete it, then search again.")


def _model_uses(connection: sqlite3.Connection) -> list[ModelUse]:
    """The models of a file in order of first use; the unknown model is left out if it has no scores."""
    rows = connection.execute(
        f"SELECT {_MODEL_COLUMNS}, ifnull(scores, 0) FROM models "
        "LEFT JOIN (SELECT model, count(*) AS scores FROM scores GROUP BY model) ON model = id ORDER BY first_used, id"
    ).fetchall()
    uses = [ModelUse(*row) for row in rows]
    return [use for use in uses if use.number != UNKNOWN_MODEL or use.scores]


def _chosen(uses: list[ModelUse], models: Sequence[str], unused_for: float | None, path: Path) -> list[ModelUse]:
    for model in models:
        if not any(_is_named(use, model) for use in uses):
            raise TourError(f"{path} has no scores of a model {model!r}; `stats` lists the models it has.")
    latest = time.time() - unused_for * _SECONDS_PER_DAY if unused_for is not None else float("inf")
    return [
        use
        for use in uses
        if use.last_used <= latest and (not models or any(_is_named(use, model) for model in models))
    ]


def _is_named(use: ModelUse, model: str) -> bool:
    if use.number == UNKNOWN_MODEL:
        return model == UNKNOWN
    return use.name == model or (bool(model) and use.fingerprint.startswith(model))


def _shrink(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        log.warning("the scores were removed, but the file %s could not be made smaller (%s)", path, error)
