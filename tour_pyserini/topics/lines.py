"""The lines of a topics or qrels file, each with its place."""

import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tour_pyserini.errors import TourError

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
