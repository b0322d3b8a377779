"""Lines and JSON of input files, each with its location for error messages."""

import gzip
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

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


_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


class Line(NamedTuple):
    """One line that is not blank, without its line end, and where it stands (numbers begin at 1)."""

    path: Path
    number: int
    text: str

    def refuse(self, reason: str) -> NoReturn:
        """Raise a TourError that names file and line, e.g. `queries.tsv, line 3 has no tab.`."""
        raise TourError(f"{self.path}, line {self.number} {reason}.")


def read_lines(path: str | os.PathLike[str]) -> Iterator[Line]:
    """The lines of a UTF-8 file, `.gz`, `.xz` or plain; blank ones are passed over."""
    path = Path(path)
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    raise TourError(f"{path}, line {number} is not UTF-8; convert the file.") from None
                if text.strip():
                    yield Line(path, number, text)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TourError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error


def load_json(path: str | os.PathLike[str]) -> Any:
    """The value that a UTF-8 JSON file, `.gz` or plain, holds."""
    path = Path(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            raw = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise TourError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TourError(f"{path}, line {line} is not UTF-8; convert the file.") from None
    except json.JSONDecodeError as error:
        raise TourError(f"{path}, line {error.lineno}, column {error.colno} is not JSON: {error.msg}.") from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise TourError(f"{path} is not JSON that can be read: {str(error).partition(';')[0]}.") from None
    except RecursionError:
        raise TourError(f"{path} is not JSON that can be read: it is nested too deeply.") from None
