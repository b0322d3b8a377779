"""The report of a measurement: a table and a note, put into a Markdown document."""

import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.support.files import atomic_write

PAGE_WIDTH = 120  # characters in a line of a document


class Report(NamedTuple):
    """One measurement: its name for --only and the document, the figures, and how they were measured."""

    name: str
    title: str
    table: Table
    note: str


def check_document(path: str | os.PathLike[str], names: Sequence[str]) -> None:
    """Check, before the measurements, that the document has the two marks of each report."""
    text = Path(path).read_text(encoding="utf-8")
    for name in names:
        if not _between_marks(name).search(text):
            raise TourError(
                f"{path} has no marks for the table ({name}): add the lines <!-- {name} --> and <!-- end of {name} -->."
            )


def fill_document(path: str | os.PathLike[str], reports: Sequence[Report], *, machine: str) -> None:
    """Put each report's table, note and the description of the machine between its two marks in a document."""
    text = Path(path).read_text(encoding="utf-8")
    for report in reports:
        begin, end = _between_marks(report.name).search(text).span(1)  # type: ignore[union-attr]
        note = textwrap.fill(f"{report.note} {machine}", PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)
        text = f"{text[:begin]}{FORMATS['markdown'](report.table)}\n\n{note}\n{text[end:]}"
    with atomic_write(path) as file:
        file.write(text)


def _between_marks(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- end of {re.escape(name)} -->", re.DOTALL)
