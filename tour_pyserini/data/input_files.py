"""Read input files, plain or compressed (.gz, .xz, .zst): their lines, or their JSON.

Every error message names the file and the line or entry.
"""

import atexit
import contextlib
import gzip
import hashlib
import json
import logging
import lzma
import math
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write, cache_home, file_state
from tour_pyserini.support.packages import import_optional

log = logging.getLogger(__name__)

IRDS = "irds:"
"""What the name of a data set of ir_datasets begins with, where it stands for a file."""

PACKED = (".gz", ".xz", ".zst")
"""Suffixes of compressed files that are read."""

_BLOCK = 1 << 20  # bytes that are unpacked at a time
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


class Location(NamedTuple):
    """A line of a file, or an entry of a JSON file, which error messages can name.

    Attributes:
        path: the file.
        where: `line 3` (counted from 1), or an entry such as `data[0].paragraphs[2]` (from 0).
        text: the line without its end.
    """

    path: str | Path
    where: str
    text: str = ""

    def refuse(self, reason: str) -> NoReturn:
        """Raise a TourError that names file and place, e.g. `queries.tsv, line 3 has no tab.`."""
        raise TourError(f"{self.path}, {self.where} {reason}.")

    def json_object(self) -> dict[str, Any]:
        """The JSON object that the line holds; any other line is refused."""
        try:
            record = json.loads(self.text)
        except (ValueError, RecursionError):
            self.refuse("is not JSON")
        if not isinstance(record, dict):
            self.refuse("is not a JSON object")
        return record

    def strings(self, value: Any, what: str) -> list[str]:
        """The value unchanged, if it is a list of strings; any other value is refused."""
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.refuse(f"does not have a list of strings as its {what}")
        return value

    def number(self, value: Any, what: str) -> float:
        """The number that a value is, or that a text says; anything else, and infinity, is refused."""
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            self.refuse(f"has the {what} {value!r:.40}, which is not a number")
        return number


def read_lines(path: str | os.PathLike[str], *, comments: bool = False) -> Iterator[Location]:
    """Read the lines of a UTF-8 file; blank lines are skipped, and comments (`# ...`) if the format has them."""
    path = Path(path)
    with _reading(path), _open_input(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise TourError(f"{path}, line {number} is not UTF-8; convert the file.") from None
            if "\0" in text:  # libraries in C end an id there, and take two ids for one
                raise TourError(f"{path}, line {number} holds a NUL character; this is not a file of text.")
            content = text.lstrip()
            if content and not (comments and content.startswith("#")):
                yield Location(path, f"line {number}", text)


def load_json(path: str | os.PathLike[str]) -> Any:
    """Read the value in a UTF-8 JSON file (plain, `.gz`, `.xz` or `.zst`)."""
    path = Path(path)
    with _reading(path), _open_input(path) as file:
        raw = file.read()
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise TourError(f"{path} is not JSON in UTF-8: {first_line(error)}.") from None


def read_json_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a UTF-8 JSON file that holds an object, such as a record.

    Raises:
        OSError: if it cannot be read.
        TourError: if it is not a JSON object.
    """
    try:
        record = json.loads(Path(path).read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TourError(f"{path} is not JSON in UTF-8: {first_line(error)}.") from None
    if not isinstance(record, dict):
        raise TourError(f"{path} is not a JSON object.")
    return record


def first_field(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of these fields that exists and is not null; None if there is none."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def is_column(text: str) -> bool:
    """Whether a text can be a column of a run file: it has no white space, and no half of a surrogate pair."""
    return text.split() == [text] and not any("\ud800" <= character <= "\udfff" for character in text)


def inner_suffix(path: Path) -> str:
    """The suffix of the content: `.json` for topics.json and for topics.json.gz."""
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def json_lines_files(folder: Path) -> list[Path]:
    """The `.jsonl` files of a folder that are not queries, plain or compressed, in the order of their names."""
    files = (path for path in folder.glob("*.jsonl*") if inner_suffix(path) == ".jsonl" and path.is_file())
    return sorted(path for path in files if not path.name.startswith(("queries", "topics")))


def plain_file(path: Path) -> Path:
    """The file itself; for a compressed one or a folder, its content in the cache folder, where it is unpacked once.

    Of a folder, the `.jsonl` files are joined. What was changed is unpacked again, and its older content deleted. The
    content of a pipe, such as `<(zcat part*.gz)` of a shell, is kept until this process ends.

    Raises:
        TourError: if a file is damaged, or there is no room for its content.
    """
    if path.is_fifo():
        handle, copy = tempfile.mkstemp(inner_suffix(path))
        atexit.register(os.unlink, copy)
        with _reading(path), open(handle, "wb") as out, _open_input(path) as content:
            shutil.copyfileobj(content, out, _BLOCK)
        return Path(copy)
    parts = json_lines_files(path) if path.is_dir() else [path]
    if parts == [path] and path.suffix not in PACKED:
        return path
    with _reading(path):
        state = [(part.name, *file_state(part)) for part in parts]
    folder, name = cache_home() / "unpacked", hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:24]
    unpacked = folder / f"{name}-{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}{inner_suffix(parts[0])}"
    if not unpacked.is_file():
        log.warning("%s is unpacked into %s, once; TOUR_PYSERINI_CACHE names another cache folder", path, folder)
        with atomic_write(unpacked, "wb") as out:
            for part in parts:
                with _reading(part), _open_input(part) as content:
                    shutil.copyfileobj(content, out, _BLOCK)
                if part != path:
                    out.write(b"\n")  # its last line may have no end
        for older in folder.glob(f"{name}-*"):
            if older != unpacked:
                older.unlink(missing_ok=True)
    return unpacked


def _unpack_zstd(packed: IO[bytes], out: IO[bytes]) -> None:
    """Unpack frames that follow each other; unlike zstandard's own reader, this notices one that is cut off."""
    zstandard = import_optional("zstandard", extra="zstd")
    frame, rest = None, b""
    while block := rest or packed.read(_BLOCK):
        frame = frame or zstandard.ZstdDecompressor().decompressobj()
        try:
            out.write(frame.decompress(block))
        except zstandard.ZstdError as error:
            raise EOFError(first_line(error)) from error
        frame, rest = (None, frame.unused_data) if frame.eof else (frame, b"")
    if frame is not None:
        raise EOFError("the compressed file ended before its last frame")


def _open_input(path: Path) -> IO[bytes]:
    """Open a file for reading from begin to end, plain or compressed."""
    if path.suffix != ".zst":
        return _OPENERS.get(path.suffix, open)(path, "rb")
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    with open(path, "rb") as packed:
        _unpack_zstd(packed, unpacked)
    unpacked.seek(0)
    return unpacked


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of a file that is missing, damaged or cut off into a TourError that names it."""
    try:
        yield
    except _DAMAGED as error:
        reason = first_line(error)
        raise TourError(f"cannot read {path}: it is damaged ({reason}); copy or download it again.") from error
    except OSError as error:
        raise TourError(f"cannot read {path}: {error.strerror or error}.") from error
