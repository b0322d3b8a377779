"""Expected scores: compared with measured ones, and written into the experiment file."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.experiments.definition import CLOSE, Scores
from tour_pyserini.experiments.measuring import Results
from tour_pyserini.support.files import atomic_write

TOLERANCE = 0.0001  # up to this difference a score is "ok"


class Verdict(NamedTuple):
    """A measured score and the expected one; `result` is `ok`, `okish`, `FAIL`, or `new` if none is expected."""

    setup: str
    condition: str
    measure: str
    score: float
    expected: float | None
    result: str


def verdicts(results: Results, expected: Scores, *, tolerance: float = CLOSE) -> Iterator[Verdict]:
    """Compare every measured score with the expected one; up to a difference of `tolerance` it is "okish"."""
    for setup, measured in results.items():
        for condition, row in measured.items():
            scores = expected.get(setup.name, {}).get(condition, {})
            for measure, score in row.means.items():
                wanted = scores.get(measure)
                yield Verdict(setup.name, condition, measure, score, wanted, _result(score, wanted, tolerance))


def write_expected(path: str | os.PathLike[str], results: Results, before: Scores) -> None:
    """Write measured scores as `expected`, the last section of the file; scores that were not measured stay."""
    merged = {setup: dict(conditions) for setup, conditions in before.items()}
    for setup, measured in results.items():
        for condition, row in measured.items():
            merged.setdefault(setup.name, {})[condition] = row.means
    text = Path(path).read_text(encoding="utf-8")
    kept = text.split("\nexpected:")[0].rstrip("\n")
    with atomic_write(path) as file:
        file.write(f"{kept}\n\nexpected:  # written by --write-expected; nothing may follow\n")
        for cell_name, conditions in merged.items():
            file.write(f"  {cell_name}:\n")
            for condition, scores in conditions.items():
                values = ", ".join(f"{json.dumps(measure)}: {score:.4f}" for measure, score in scores.items())
                file.write(f"    {condition}: {{{values}}}\n")


def _result(score: float, expected: float | None, tolerance: float) -> str:
    if expected is None:
        return "new"
    # Both numbers have four digits; 1e-9 allows for the error of floating-point subtraction.
    difference = abs(round(score, 4) - expected) - 1e-9
    return "ok" if difference <= TOLERANCE else "okish" if difference <= tolerance else "FAIL"
