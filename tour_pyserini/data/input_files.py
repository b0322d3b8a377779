"""Read input files, plain or compressed (.gz, .xz, .zst): their lines, or their JSON.

Every error message names the file and the line or entry.
"""

import contextlib
import gzip
import hashlib
import io
import json
import logging
import lzma
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, Protocol

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write, cache_home
from tour_pyserini.support.memo import file_state
from tour_pyserini.support.optional import import_optional

log = logging.getLogger(__name__)

_BLOCK = 1 << 20  # bytes that are unpacked at a time
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


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


def read_lines(path: str | os.PathLike[str], *, comments: bool = False) -> Iterator[Line]:
    """Read the lines of a UTF-8 file; blank lines are skipped, and comments (`# ...`) if the format has them."""
    path = Path(path)
    with reading(path), open_input(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise TourError(f"{path}, line {number} is not UTF-8; convert the file.") from None
            content = text.lstrip()
            if content and not (comments and content.startswith("#")):
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
    except (ValueError, RecursionError) as error:  # an integer with thousands of digits; nested too deeply
        raise TourError(f"{path} cannot be parsed as JSON: {first_line(error)}.") from None


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


def open_input(path: Path) -> IO[bytes]:
    """Open a file for reading from begin to end, plain or compressed."""
    return _OPENERS.get(path.suffix, open)(path, "rb")


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return path.suffix in _OPENERS


def inner_suffix(path: Path) -> str:
    """The suffix of the content: `.json` for topics.json and for topics.json.gz."""
    return Path(path.stem).suffix if is_packed(path) else path.suffix


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of a file that is missing, damaged or cut off into a TourError that names it."""
    try:
        yield
    except _DAMAGED as error:
        reason = first_line(error).rstrip(".")
        raise TourError(
            f"cannot read {path}: it is damaged or incomplete ({reason}); copy or download it again."
        ) from error
    except OSError as error:
        raise TourError(f"cannot read {path}: {error.strerror or error}.") from error


def plain_file(path: Path) -> Path:
    """The file itself; for a compressed one, its content in the cache folder, where it is unpacked once.

    A file that was changed is unpacked again, and its older content deleted.

    Raises:
        TourError: if it is damaged, or there is no room for its content.
    """
    if not is_packed(path):
        return path
    with reading(path):
        state = file_state(path)
    folder, name = cache_home() / "unpacked", hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:24]
    unpacked = folder / f"{name}-{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}{inner_suffix(path)}"
    if not unpacked.is_file():
        log.warning("%s is unpacked into %s, once", path, folder)
        try:
            _unpack(path, unpacked)
        except TourError as error:
            if not str(error).startswith("cannot write"):
                raise
            raise TourError(
                f"{path} cannot be unpacked into the cache folder: {error} TOUR_PYSERINI_CACHE names the cache folder."
            ) from error
        for older in folder.glob(f"{name}-*"):
            if older != unpacked:
                older.unlink(missing_ok=True)
    return unpacked


def _unpack(path: Path, output: Path) -> None:
    from tqdm import tqdm

    # The bar counts bytes of the compressed file, whose number is known.
    with (
        atomic_write(output, "wb") as out,
        reading(path),
        open(path, "rb") as raw,
        tqdm.wrapattr(raw, "read", path.stat().st_size, desc="unpacking", disable=None, dynamic_ncols=True) as counted,
        _OPENERS[path.suffix](counted, "rb") as content,
    ):
        shutil.copyfileobj(content, out, _BLOCK)


class _ZstdFile(io.RawIOBase):
    """The content of a .zst file of one or several frames; unlike zstandard's own reader, it tells where one is cut."""

    def __init__(self, file: Any) -> None:
        self._zstandard = import_optional("zstandard", extra="zstd")
        self._file = file
        self._ready = memoryview(b"")
        self._frame: Any = None
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and self._more():
            pass
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _more(self) -> bool:
        """Unpack the next block; False at the end."""
        packed = self._rest or self._file.read(_BLOCK)
        if not packed:
            if self._frame is not None:
                raise EOFError("the compressed file ended before its last frame")
            return False
        self._frame = self._frame or self._zstandard.ZstdDecompressor().decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(packed))
        except self._zstandard.ZstdError as error:
            raise EOFError(first_line(error)) from error
        self._rest = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None
        return True


def _open_zstd(path: Any, mode: str) -> IO[bytes]:
    file = open(path, mode) if isinstance(path, Path) else path  # noqa: SIM115 (closed with the reader)
    return io.BufferedReader(_ZstdFile(file), _BLOCK)


_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".zst": _open_zstd}
PACKED = tuple(_OPENERS)
"""Suffixes of compressed files that are read."""
