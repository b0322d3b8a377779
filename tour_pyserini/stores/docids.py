"""Docids in one buffer instead of one Python string each, and the file `docid` of an index that holds them."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import MAPPED_FROM

_BLOCK = 1 << 20  # docids that are decoded at a time
_BYTES = 1 << 24  # bytes of a file that are checked at a time
_NEWLINE, _BLANK, _DELETE = 0x0A, 0x20, 0x7F


class Docids(Sequence[str]):
    """A sequence of docids: their UTF-8 text, and 4 bytes each that say where it ends.

    Example:
        >>> docids = Docids.of(["MED-10", "MED-14"])
        >>> docids[1], len(docids)
        ('MED-14', 2)
    """

    def __init__(self, text: np.ndarray, ends: np.ndarray) -> None:
        """Use a buffer, in memory or memory-mapped.

        Args:
            text: uint8: each docid, followed by one more byte.
            ends: [n] where each docid ends in it.
        """
        self.text, self.ends = text, ends

    @classmethod
    def of(cls, docids: Iterable[str]) -> Self:
        """The docids of an iterable, packed."""
        text, ends = bytearray(), array("Q")
        for docid in docids:
            text += docid.encode("utf-8", "surrogatepass")
            ends.append(len(text))
            text.append(_NEWLINE)
        return cls(np.frombuffer(text, dtype=np.uint8), _narrow(np.array(ends, dtype=np.int64)))

    def starts(self, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Where the docids from `first` to before `stop` begin in `text`; int64."""
        ends = self.ends[max(first - 1, 0) : max(len(self) if stop is None else stop, 1) - 1].astype(np.int64) + 1
        return ends if first else np.concatenate(([0], ends))[:stop]

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        number = range(len(self))[position]  # counts from the end if negative; refuses what is outside
        start = int(self.ends[number - 1]) + 1 if number else 0
        return self.text[start : int(self.ends[number])].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _BLOCK):
            starts, ends = self.starts(first, min(first + _BLOCK, len(self))), self.ends[first : first + _BLOCK]
            begin = int(starts[0])
            text = self.text[begin : int(ends[-1])].tobytes()
            for start, end in zip((starts - begin).tolist(), (ends.astype(np.int64) - begin).tolist(), strict=True):
                yield text[start:end].decode("utf-8", "surrogatepass")

    def __len__(self) -> int:
        return len(self.ends)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Docids):
            return np.array_equal(self.ends, other.ends) and all(
                # The byte after a docid may differ, and so may what follows the last one.
                np.array_equal(_masked(self, first), _masked(other, first))
                for first in range(0, len(self), _BLOCK)
            )
        if isinstance(other, Sequence) and not isinstance(other, str):
            return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} docids>"


def read_docids(path: Path) -> Docids:
    """Read the docids of an index, one per line in the order of the vectors; a large file is memory-mapped.

    White space at the end of a line is ignored, as Pyserini ignores it.

    Raises:
        TourError: if the file cannot be read, or a docid is empty, not UTF-8 or has white space in it; the message
            names the line.
    """
    try:
        size = path.stat().st_size
        text = np.memmap(path, np.uint8, mode="r") if size >= MAPPED_FROM else np.fromfile(path, np.uint8)
        size = len(text)
    except OSError as error:
        raise TourError(f"cannot read {path}: {error.strerror}.") from error
    number: type[np.unsignedinteger[Any]] = np.uint32 if size < 2**32 else np.uint64
    newlines = [np.empty(0, dtype=number)]
    plain = True
    for start in range(0, size, _BYTES):
        block = text[start : start + _BYTES]
        newlines.append((np.flatnonzero(block == _NEWLINE) + start).astype(number))
        # Line ends are the only bytes up to the blank: nothing else of ASCII is white space.
        plain &= int((block <= _BLANK).sum()) == len(newlines[-1]) and int(block.max()) <= _DELETE
    ends = np.concatenate(newlines)
    if size and text[-1] != _NEWLINE:
        ends = np.append(ends, number(size))
    docids = Docids(text, ends)
    empty = len(ends) and (ends[0] == 0 or bool((np.diff(ends) == 1).any()))
    return docids if plain and not empty else _checked(docids, path)


def _checked(docids: Docids, path: Path) -> Docids:
    """The docids without white space at their ends, each of them checked."""
    changed = False
    number = 0
    for first in range(0, len(docids), _BLOCK):
        starts, ends = docids.starts(first, min(first + _BLOCK, len(docids))), docids.ends[first : first + _BLOCK]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            number += 1
            try:
                line = docids.text[start:end].tobytes().decode("utf-8")
            except UnicodeDecodeError:
                raise TourError(f"{path}, line {number} is not UTF-8; build the index again.") from None
            docid = line.rstrip()
            if docid.split() != [docid]:
                what = f"has white space in the docid {docid!r:.100}" if docid else "has no docid"
                raise TourError(f"{path}, line {number} {what}, which no run file can hold; build the index again.")
            changed |= docid != line
    return Docids.of(line.rstrip() for line in docids) if changed else docids


def _masked(docids: Docids, first: int) -> np.ndarray:
    """The text of a block of docids, with the byte after each docid set to a line end."""
    ends = docids.ends[first : first + _BLOCK].astype(np.int64)
    begin = int(docids.starts(first, first + 1)[0])
    text = np.array(docids.text[begin : int(ends[-1])])
    text[ends[:-1] - begin] = _NEWLINE
    return text


def _narrow(ends: np.ndarray) -> np.ndarray:
    """Positions in 4 bytes, if the buffer is small enough."""
    return ends.astype(np.uint32 if not len(ends) or int(ends[-1]) < 2**32 else np.uint64)


def as_docids(docids: Sequence[str] | Any) -> Docids:
    """A sequence of docids, packed if it is not yet."""
    return docids if isinstance(docids, Docids) else Docids.of(docids)
