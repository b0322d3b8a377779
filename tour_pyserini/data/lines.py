"""Read lines and JSON of input files; every error message names the file and the line or entry."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from tour_pyserini.data.packed_files import open_input, reading
from tour_pyserini.errors import TourError


class Location(Protocol):
    """A part of a file that error messages can name: a line, or an entry of a JSON file."""

    def refuse(self, reason: str) -> NoReturn:
        """Raise a TourError that names the location, e.g. `queries.tsv, line 3 has no tab.`."""


class Line(NamedTuple):
    """One line that is not blank, without its line end; line numbers begin at 1."""

    path: Path
    number: int
    text: str

    def refuse(self, reason: str) -> NoReturn:
        """Raise a TourError that names file and line, e.g. `queries.tsv, line 3 has no tab.`."""
        raise TourError(f"{self.path}, line {self.number} {reason}.")


class Entry(NamedTuple):
    """An entry of a JSON file, such as `data[0].paragraphs[2]` (counted from 0)."""

    path: str | Path
    where: str

    def refuse(self, reason: str) -> NoReturn:
        """Raise a TourError that names file and entry, e.g. `dev.json, entry [3] has no query text.`."""
        raise TourError(f"{self.path}, {self.where} {reason}.")


def read_lines(path: str | os.PathLike[str]) -> Iterator[Line]:
    """Read the lines of a UTF-8 file (plain, `.gz`, `.xz` or `.zst`); blank lines are skipped."""
    path = Path(path)
    with reading(path), open_input(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise TourError(f"{path}, line {number} is not UTF-8; convert the file.") from None
            if text.strip():
                yield Line(path, number, text)


def load_json(path: str | os.PathLike[str]) -> Any:
    """Read the value in a UTF-8 JSON file (plain, `.gz`, `.xz` or `.zst`)."""
    path = Path(path)
    with reading(path), open_input(path) as file:
        raw = file.read()
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TourError(f"{path}, line {line} is not UTF-8; convert the file.") from None
    except json.JSONDecodeError as error:
        raise TourError(f"{path}, line {error.lineno}, column {error.colno} is not JSON: {error.msg}.") from None
    except ValueError as error:  # an integer with more digits than Python converts
        raise TourError(f"{path} cannot be parsed as JSON: {str(error).partition(';')[0]}.") from None
    except RecursionError:
        raise TourError(f"{path} cannot be parsed as JSON: it is nested too deeply.") from None


def read_json_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a UTF-8 JSON file that holds an object, such as a record.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not a JSON object.
    """
    try:
        record = json.loads(Path(path).read_bytes().decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    return record


def json_object(line: Line) -> dict[str, Any]:
    """Parse a line as a JSON object; any other line is refused."""
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError):
        line.refuse("is not JSON")
    if not isinstance(record, dict):
        line.refuse("is not a JSON object")
    return record


def first_field(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of these fields that exists and is not null; None if there is none."""
    return next((record[name] for name in names if record.get(name) is not None), None)
