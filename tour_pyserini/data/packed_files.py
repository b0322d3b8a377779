"""Compressed files (.gz, .xz, .zst): read from begin to end, or unpacked once where single parts are read."""

import contextlib
import gzip
import hashlib
import io
import logging
import lzma
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write, cache_home
from tour_pyserini.support.memo import file_state
from tour_pyserini.support.optional import import_optional

log = logging.getLogger(__name__)

_BLOCK = 1 << 20  # bytes that are unpacked at a time
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


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
    size = path.stat().st_size
    with (
        atomic_write(output, "wb") as out,
        tqdm(total=size, unit="B", unit_scale=True, desc="unpacking", disable=None, dynamic_ncols=True) as bar,
        reading(path),
        open(path, "rb") as raw,
        _OPENERS[path.suffix](_Counted(raw, bar.update), "rb") as content,
    ):
        shutil.copyfileobj(content, out, _BLOCK)


class _Counted(io.RawIOBase):
    """A file that reports how many bytes were read of it."""

    def __init__(self, file: IO[bytes], report: Callable[[int], Any]) -> None:
        self._file, self._report = file, report

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._report(len(content))
        return content


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
