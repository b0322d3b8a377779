"""Docids in one buffer instead of one Python string each, the file `docid` of an index, and the positions of docids."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from tour_pyserini.core.arrays import Ids
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import MAPPED_FROM

_BLOCK = 1 << 18  # docids that are decoded at a time
_BYTES = 1 << 24  # bytes of a file that are checked at a time
_NEWLINE, _BLANK, _DELETE = 0x0A, 0x20, 0x7F


class Docids(Sequence[str]):
    """A sequence of docids without white space: their UTF-8 text, and 4 bytes each that say where it ends.

    Example:
        >>> docids = Docids.of(["MED-10", "MED-14"])
        >>> docids[1], len(docids)
        ('MED-14', 2)
    """

    def __init__(self, text: np.ndarray) -> None:
        """Use a buffer uint8, in memory or memory-mapped, of docids with a line end after each."""
        number = np.uint32 if len(text) < 2**32 else np.uint64
        blocks = range(0, len(text), _BYTES)
        ends = [(np.flatnonzero(text[start : start + _BYTES] == _NEWLINE) + start).astype(number) for start in blocks]
        self.text, self.ends = text, np.concatenate([np.empty(0, dtype=number), *ends])

    @classmethod
    def of(cls, docids: Iterable[str]) -> Self:
        """The docids of an iterable, packed."""
        text = "".join(f"{docid}\n" for docid in docids).encode("utf-8", "surrogatepass")
        return cls(np.frombuffer(text, dtype=np.uint8))

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        number = range(len(self))[position]  # counts from the end if negative; refuses what is outside
        return self.bytes_of(number).decode("utf-8", "surrogatepass")

    def bytes_of(self, position: int) -> bytes:
        """The UTF-8 text of the docid at a position."""
        start = int(self.ends[position - 1]) + 1 if position else 0
        return self.text[start : int(self.ends[position])].tobytes()

    def encoded(self) -> Iterator[bytes]:
        """The UTF-8 text of each docid."""
        start = 0
        for last in range(_BLOCK, len(self) + _BLOCK, _BLOCK):
            end = int(self.ends[min(last, len(self)) - 1])
            yield from self.text[start:end].tobytes().split(b"\n")
            start = end + 1

    def __iter__(self) -> Iterator[str]:
        return (docid.decode("utf-8", "surrogatepass") for docid in self.encoded())

    def __len__(self) -> int:
        return len(self.ends)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Docids):
            return np.array_equal(self.ends, other.ends) and np.array_equal(self.text, other.text)
        if isinstance(other, Sequence) and not isinstance(other, str):
            return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Docids, (np.array(self.text),)  # without the positions: other processes hash in another way

    @cached_property
    def positions(self) -> "Positions":
        """The position of each docid; one table for all who ask."""
        return Positions(self)


class Positions(Mapping[str, int]):
    """The position of each of many docids, of equal ones the last: a sorted table of hashes, 12 bytes per docid.

    Example:
        >>> positions = Docids.of(["MED-10", "MED-14"]).positions
        >>> positions["MED-14"], positions.get("MED-12")
        (1, None)
    """

    def __init__(self, docids: Docids) -> None:
        """Hash and sort the docids."""
        self.docids = docids
        hashes = _hashes(docids)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        if (self._hashes[1:] == self._hashes[:-1]).any():
            # Equal hashes must be in the order of their positions. A stable sort takes three times as long.
            order = np.argsort(hashes, kind="stable")
        self._order = order.astype(docids.ends.dtype)

    def __getitem__(self, docid: str) -> int:
        if not isinstance(docid, str) or (position := self._find(docid.encode("utf-8", "surrogatepass"))) < 0:
            raise KeyError(docid)
        return position

    def find(self, docids: Docids) -> Ids:
        """The positions [n] of docids; -1 where there is none."""
        if not self:
            return np.full(len(docids), -1, dtype=np.int64)
        hashes = _hashes(docids)
        at = np.searchsorted(self._hashes, hashes, side="right") - 1
        found = np.where(self._hashes[at] == hashes, self._order[at].astype(np.int64), -1)
        for row, (position, docid) in enumerate(zip(found.tolist(), docids.encoded(), strict=True)):
            if position >= 0 and self.docids.bytes_of(position) != docid:  # another docid has this hash
                found[row] = self._find(docid)
        return found

    def _find(self, docid: bytes) -> int:
        # Numbers of a memoryview are Python's, which compare faster than NumPy's.
        wanted, hashes = hash(docid), memoryview(self._hashes)  # type: ignore[arg-type]
        at = bisect_right(hashes, wanted) - 1
        while at >= 0 and hashes[at] == wanted:
            position = int(self._order[at])
            if self.docids.bytes_of(position) == docid:
                return position
            at -= 1
        return -1

    def __bool__(self) -> bool:
        return len(self.docids) > 0  # counting different docids takes long

    def __len__(self) -> int:
        return len(set(self.docids))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self.docids))


def _hashes(docids: Docids) -> np.ndarray:
    """The hash of each docid, int64 [n]; another process has other hashes."""
    return np.fromiter(map(hash, docids.encoded()), np.int64, len(docids))


def positions_of(docids: Sequence[str]) -> Mapping[str, int]:
    """The position of each docid; of equal docids, the last one."""
    return docids.positions if isinstance(docids, Docids) else {docid: i for i, docid in enumerate(docids)}


def difference(docids: Sequence[str], positions: Mapping[str, int]) -> tuple[str | None, str | None]:
    """A docid that has no position, and one that has a position and is not among the docids; None where there is none.

    Example:
        >>> difference(["MED-10", "MED-12"], {"MED-10": 0, "MED-14": 1})
        ('MED-12', 'MED-14')
    """
    others = positions.docids if isinstance(positions, Positions) else list(positions)
    if isinstance(docids, Docids) and docids == others:  # as a rule; a comparison takes a thirtieth of the time
        return None, None
    return _first_unknown(docids, positions), _first_unknown(others, positions_of(docids))


def _first_unknown(docids: Sequence[str], positions: Mapping[str, int]) -> str | None:
    if isinstance(docids, Docids) and isinstance(positions, Positions):
        unknown = np.flatnonzero(positions.find(docids) < 0)
        return docids[int(unknown[0])] if len(unknown) else None
    return next((docid for docid in docids if docid not in positions), None)


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
    except OSError as error:
        raise TourError(f"cannot read {path}: {error.strerror}.") from error
    if len(text) and text[-1] != _NEWLINE:
        text = np.append(text, np.uint8(_NEWLINE))
    docids = Docids(text)
    blocks = [text[start : start + _BYTES] for start in range(0, len(text), _BYTES)]
    # Line ends are the only bytes up to the blank: nothing else of ASCII is white space.
    plain = sum(int((block <= _BLANK).sum()) for block in blocks) == len(docids)
    plain &= all(int(block.max()) <= _DELETE for block in blocks)
    has_empty = len(docids) and (docids.ends[0] == 0 or bool((np.diff(docids.ends) == 1).any()))
    return docids if plain and not has_empty else Docids.of(_checked_lines(docids, path))


def _checked_lines(docids: Docids, path: Path) -> Iterator[str]:
    """The docids without white space at their ends, each of them checked."""
    for number, line in enumerate(docids.encoded(), start=1):
        try:
            docid = line.decode("utf-8").rstrip()
        except UnicodeDecodeError:
            raise TourError(f"{path}, line {number} is not UTF-8; build the index again.") from None
        if docid.split() != [docid]:
            what = f"has white space in the docid {docid!r:.100}" if docid else "has no docid"
            raise TourError(f"{path}, line {number} {what}, which no run file can hold; build the index again.")
        yield docid
