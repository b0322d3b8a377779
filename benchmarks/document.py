"""Tables in a document that explains them."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Report
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS
from tour_pyserini.support.files import atomic_write


def check(path: str | os.PathLike[str], names: Sequence[str]) -> None:
    """Find out before the measurements that the document has a place for each of them."""
    text = _read(path)
    for name in names:
        if not _place(name).search(text):
            raise TourError(
                f"{path} has no place for ({name}): add the lines <!-- {name} --> and <!-- end of {name} -->."
            )


def fill(path: str | os.PathLike[str], reports: Sequence[Report], *, about: str) -> None:
    """Put each report between its two marks; the document changes whole or not at all."""
    text = _read(path)
    for report in reports:
        begin, end = _place(report.name).search(text).span(1)  # type: ignore[union-attr]
        text = f"{text[:begin]}{FORMATS['markdown'](report.table)}\n\n{report.note} {about}\n{text[end:]}"
    with atomic_write(path) as file:
        file.write(text)


def _place(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- end of {re.escape(name)} -->", re.DOTALL)


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TourError(f"cannot read the document {path}: {error.strerror}.") from error
