"""Expected scores: against what was measured, and written into the file."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.experiments.definition import Scores
from tour_pyserini.experiments.measuring import Rows
from tour_pyserini.support.files import atomic_write

TOLERANCE = 0.0001
CLOSE = 0.0005
"""What Pyserini's reproductions call "OKish"."""


class Verdict(NamedTuple):
    """One measured score beside the expected one: `ok`, `okish`, `FAIL`, or `new` where nothing is expected."""

    cell: str
    condition: str
    measure: str
    score: float
    expected: float | None
    result: str


def verdicts(rows: Rows, expected: Scores) -> Iterator[Verdict]:
    """Every measured score against the expected one."""
    for cell, measured in rows.items():
        for condition, row in measured.items():
            scores = expected.get(cell.name, {}).get(condition, {})
            for measure, score in row.means.items():
                wanted = scores.get(measure)
                yield Verdict(cell.name, condition, measure, score, wanted, _result(score, wanted))


def write_expected(path: str | os.PathLike[str], rows: Rows, before: Scores) -> None:
    """Write measured scores as the last part of the file, `expected`; what was not measured stays as it was."""
    merged = {cell: dict(conditions) for cell, conditions in before.items()}
    for cell, measured in rows.items():
        for condition, row in measured.items():
            merged.setdefault(cell.name, {})[condition] = row.means
    text = Path(path).read_text(encoding="utf-8")
    kept = text.split("\nexpected:")[0].rstrip("\n")
    with atomic_write(path) as file:
        file.write(f"{kept}\n\nexpected:  # written by --write-expected; nothing may follow\n")
        for cell_name, conditions in merged.items():
            file.write(f"  {cell_name}:\n")
            for condition, scores in conditions.items():
                values = ", ".join(f"{json.dumps(measure)}: {score:.4f}" for measure, score in scores.items())
                file.write(f"    {condition}: {{{values}}}\n")


def _result(score: float, expected: float | None) -> str:
    if expected is None:
        return "new"
    # Both sides have four digits: half of the last one is rounding.
    away = abs(round(score, 4) - expected) - 1e-9
    return "ok" if away <= TOLERANCE else "okish" if away <= CLOSE else "FAIL"
