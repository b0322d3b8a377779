"""Maintenance of files of rows that are kept between runs: rows per model, verification and pruning."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.support.kept_file import (
    MODEL_COLUMNS,
    UNKNOWN_MODEL,
    is_busy,
    is_damage,
    size_on_disk,
    telling_damage,
    transaction,
)

log = logging.getLogger(__name__)

UNKNOWN = "unknown"
"""The name under which users choose rows whose model was not recorded."""

_SECONDS_PER_DAY = 86_400
_LAST_SECOND = 253_402_300_800  # of the year 9999


class KeptRows(NamedTuple):
    """A kind of file.

    Attributes:
        noun: what the file is called in messages, such as "score cache".
        table: the table of rows, which is also what they are called, such as "scores".
        connect: opens a file.
        faults: what no row may be, each with a condition in SQL.
    """

    noun: str
    table: str
    connect: Callable[[Path], sqlite3.Connection]
    faults: Mapping[str, str]


class ModelUse(NamedTuple):
    """The number of stored rows of a model, and when the model was first and last used (seconds since 1970).

    Rows from the first layout of a file have no recorded model: their fingerprint and name are empty.
    """

    number: int
    fingerprint: str
    name: str
    first_used: int
    last_used: int
    rows: int


def rows_by_model(kind: KeptRows, path: Path) -> list[ModelUse]:
    """Count the rows of each model in a file, in order of first use."""
    with open_existing(kind, path) as connection:
        return _model_uses(connection, kind, path)


def verify(kind: KeptRows, path: Path) -> int:
    """Check the file and the checksum of every row in it, and return the number of rows.

    Raises:
        TourError: when the file is damaged or holds rows that were never written.
    """
    conditions = {
        **{f"{kind.table} {fault}": f"{kind.table} WHERE {condition}" for fault, condition in kind.faults.items()},
        f"{kind.table} without a model": f"{kind.table} WHERE model NOT IN (SELECT id FROM models)",
        "models with a wrong checksum": f"models WHERE checksum IS NOT model_checksum({MODEL_COLUMNS})",
    }
    with open_existing(kind, path) as connection:
        ((verdict,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if verdict != "ok":
            raise damaged(kind, path, verdict)
        for fault, condition in conditions.items():
            ((count,),) = connection.execute(f"SELECT count(*) FROM {condition}").fetchall()
            if count:
                raise damaged(kind, path, f"{count} {fault}")
        ((total,),) = connection.execute(f"SELECT count(*) FROM {kind.table}").fetchall()
        return total


def prune(
    kind: KeptRows,
    path: Path,
    *,
    models: Sequence[str] = (),
    unused_for: float | None = None,
    dry_run: bool = False,
) -> list[ModelUse]:
    """Remove the rows of some models and make the file smaller.

    Args:
        kind: the kind of file.
        path: the file.
        models: names, or beginnings of fingerprints, or "unknown"; none: all models.
        unused_for: only models that were not used for this number of days.
        dry_run: remove nothing.

    Returns:
        The models whose rows were removed, or would be removed.
    """
    with open_existing(kind, path) as connection:
        with transaction(connection):
            uses = _model_uses(connection, kind, path)
            chosen = chosen_models(uses, models, unused_for, rows=kind.table, where=path)
            if not dry_run:
                numbers = [(use.number,) for use in chosen]
                connection.executemany(f"DELETE FROM {kind.table} WHERE model = ?", numbers)
                connection.executemany(f"DELETE FROM models WHERE id = ? AND id <> {UNKNOWN_MODEL}", numbers)
        if chosen and not dry_run:
            _shrink(connection, kind, path)
    return chosen


class FileUpkeep(NamedTuple):
    """What `cache` does with one file."""

    kind: KeptRows
    path: Path

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.path)

    @property
    def rows(self) -> str:
        """What its rows are called."""
        return self.kind.table

    def models(self) -> list[ModelUse]:
        """Count the rows of each model."""
        return rows_by_model(self.kind, self.path)

    def size(self) -> int:
        """Bytes of the file and of its write-ahead log."""
        return size_on_disk(self.path)

    def verify(self) -> int:
        """Check the file, and return the number of rows."""
        return verify(self.kind, self.path)

    def prune(
        self, *, models: Sequence[str] = (), unused_for: float | None = None, dry_run: bool = False
    ) -> list[ModelUse]:
        """Remove the rows of some models."""
        return prune(self.kind, self.path, models=models, unused_for=unused_for, dry_run=dry_run)


@contextmanager
def open_existing(kind: KeptRows, path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file that must exist; errors of SQLite become a TourError."""
    if not path.is_file():
        raise TourError(f"the {kind.noun} {path} does not exist; give the path of an existing one.")
    try:
        connection = kind.connect(path)
        try:
            with telling_damage():
                yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        if is_damage(error):
            raise damaged(kind, path, str(error)) from error
        advice = "try again when no other process uses it" if is_busy(error) else "make room on its disk, or delete it"
        raise TourError(f"the {kind.noun} {path} cannot be used ({error}); {advice}.") from error


def damaged(kind: KeptRows, path: Path, what: str) -> TourError:
    """Make the error for a damaged file."""
    reason = what.splitlines()[-1]
    return TourError(f"the {kind.noun} {path} is damaged ({reason}); rename or delete it, then search again.")


def _model_uses(connection: sqlite3.Connection, kind: KeptRows, path: Path) -> list[ModelUse]:
    """The models of a file in order of first use; the unknown model is left out if it has no rows."""
    found = connection.execute(
        f"SELECT {MODEL_COLUMNS}, ifnull(count, 0) FROM models LEFT JOIN "
        f"(SELECT model, count(*) AS count FROM {kind.table} GROUP BY model) ON model = id ORDER BY first_used, id"
    ).fetchall()
    uses = [ModelUse(*row) for row in found]
    if not all(map(_is_possible, uses)):
        raise damaged(kind, path, "a model has values that were never written")
    return [use for use in uses if use.number != UNKNOWN_MODEL or use.rows]


def _is_possible(use: ModelUse) -> bool:
    """Whether the columns of a model have their types, and its times are in a calendar: SQLite stores anything."""
    texts, times = (use.fingerprint, use.name), (use.first_used, use.last_used)
    return all(isinstance(text, str) for text in texts) and all(
        isinstance(moment, int) and 0 <= moment < _LAST_SECOND for moment in times
    )


def chosen_models(
    uses: list[ModelUse], models: Sequence[str], unused_for: float | None, *, rows: str, where: object
) -> list[ModelUse]:
    """Those of the models that `prune` means; `rows` and `where` are what messages call the rows and their place."""
    if not models and unused_for is None:
        raise TourError(f"no {rows} were chosen for removal; name models, or say how many days they were not used.")
    for model in models:
        if not any(is_named(use, model) for use in uses):
            raise TourError(f"{where} has no {rows} of a model {model!r}; `stats` lists the models it has.")
    latest = time.time() - unused_for * _SECONDS_PER_DAY if unused_for is not None else float("inf")
    return [
        use for use in uses if use.last_used <= latest and (not models or any(is_named(use, model) for model in models))
    ]


def is_named(use: ModelUse, model: str) -> bool:
    """Whether a user's word means this model: its name, the beginning of its fingerprint, or "unknown"."""
    if use.number == UNKNOWN_MODEL:
        return model == UNKNOWN
    return use.name == model or (bool(model) and use.fingerprint.startswith(model))


def _shrink(connection: sqlite3.Connection, kind: KeptRows, path: Path) -> None:
    try:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        log.warning("the %s were removed, but the file %s could not be made smaller (%s)", kind.table, path, error)
