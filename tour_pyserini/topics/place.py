"""Where something stands in a file, for messages."""

from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

from tour_pyserini.errors import TourError


class Place(Protocol):
    """Something that can name itself when it is not as it should be: a line, an entry of a JSON file."""

    def refuse(self, reason: str) -> NoReturn:
        """Raise a TourError that names the place, e.g. `queries.tsv, line 3 has no tab.`."""


class Entry(NamedTuple):
    """A part of a file that is no line of it, such as `data[0].paragraphs[2]` (counted from 0)."""

    path: str | Path
    where: str

    def refuse(self, reason: str) -> NoReturn:
        """Raise a TourError that names file and part, e.g. `dev.json, entry [3] has no query text.`."""
        raise TourError(f"{self.path}, {self.where} {reason}.")
