"""Docids in one buffer instead of one Python string each, the file `docid` of an index, and the positions of docids."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self, overload

import numpy as np

from tour_pyserini.core.arrays import Ids
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import MAPPED_FROM

_BLOCK = 1 << 18  # docids that are decoded at a time
_BYTES = 1 << 24  # bytes of a file that are checked at a time
_NEWLINE, _BLANK, _DELETE = 0x0A, 0x20, 0x7F
_WORD = 8  # bytes that are hashed at a time
_FACTOR, _SHIFT, _BITS = 0x9E3779B97F4A7C15, 29, 2**64 - 1
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(_WORD + 1)], dtype=np.uint64)


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
        start = int(self.ends[number - 1]) + 1 if number else 0
        return self.text[start : int(self.ends[number])].tobytes().decode("utf-8", "surrogatepass")

    def spans(self, positions: Ids) -> tuple[Ids, Ids]:
        """Where the docids at positions [m] begin in the text, and their lengths in bytes."""
        starts = np.where(positions > 0, self.ends[positions - 1].astype(np.int64) + 1, 0)
        return starts, self.ends[positions].astype(np.int64) - starts

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

    def __repr__(self) -> str:
        return f"<{len(self)} docids>"

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
        if isinstance(docid, str):
            # Numbers of a memoryview are Python's, which compare faster than NumPy's.
            wanted, hashes = _hash(docid), memoryview(self._hashes)  # type: ignore[arg-type]
            at = bisect_right(hashes, wanted) - 1
            while at >= 0 and hashes[at] == wanted:
                position = int(self._order[at])
                if self.docids[position] == docid:
                    return position
                at -= 1
        raise KeyError(docid)

    def find(self, docids: Docids) -> Ids:
        """The positions [n] of docids; -1 where there is none."""
        found = np.full(len(docids), -1, dtype=np.int64)
        hashes = _hashes(docids)
        for first in range(0, len(docids), _BLOCK):
            # In the order of their hashes, neighbours in the table are looked up one after the other.
            rows = first + np.argsort(hashes[first : first + _BLOCK])
            at = np.searchsorted(self._hashes, hashes[rows], side="right") - 1
            while len(rows):
                rows, at = rows[at >= 0], at[at >= 0]
                same_hash = self._hashes[at] == hashes[rows]
                rows, at = rows[same_hash], at[same_hash]
                positions = self._order[at].astype(np.int64)
                same = _equal(docids, rows, self.docids, positions)
                found[rows[same]] = positions[same]
                rows, at = rows[~same], at[~same] - 1
        return found

    def __bool__(self) -> bool:
        return len(self.docids) > 0  # counting different docids takes long

    def __len__(self) -> int:
        return len(self._distinct())

    def __iter__(self) -> Iterator[str]:
        return (self.docids[position] for position in self._distinct().tolist())

    def _distinct(self) -> Ids:
        """The last position of each docid."""
        return np.unique(self.find(self.docids))


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


def _hashes(docids: Docids) -> np.ndarray:
    """The 64-bit hash of each docid, uint64 [n]: eight bytes of all docids at a time."""
    hashes = np.empty(len(docids), dtype=np.uint64)
    for first in range(0, len(docids), _BLOCK):
        starts, left = docids.spans(np.arange(first, min(first + _BLOCK, len(docids))))
        begin, end = int(starts[0]), int(starts[-1] + left[-1])
        # Words are read at any byte, also beyond the last docid.
        text = np.concatenate((docids.text[begin:end], np.zeros(_WORD, dtype=np.uint8)))
        words = np.ndarray(len(text) - _WORD + 1, dtype="<u8", buffer=text, strides=(1,))
        at, values = starts - begin, left.astype(np.uint64)
        rows = np.flatnonzero(left > 0)
        while len(rows):
            taken = words[at[rows]] & _MASKS[np.minimum(left[rows], _WORD)]
            mixed = (values[rows] ^ taken) * np.uint64(_FACTOR)
            values[rows] = mixed ^ (mixed >> np.uint64(_SHIFT))
            at[rows] += _WORD
            left[rows] -= _WORD
            rows = rows[left[rows] > 0]
        hashes[first : first + _BLOCK] = values
    return hashes


def _hash(docid: str) -> int:
    """The hash of one docid, as `_hashes` computes it."""
    text = docid.encode("utf-8", "surrogatepass")
    value = len(text)
    for start in range(0, len(text), _WORD):
        value = (value ^ int.from_bytes(text[start : start + _WORD], "little")) * _FACTOR & _BITS
        value ^= value >> _SHIFT
    return value


def _equal(left: Docids, left_rows: Ids, right: Docids, right_rows: Ids) -> np.ndarray:
    """Whether docids are equal, pair by pair: bool [m]."""
    left_starts, lengths = left.spans(left_rows)
    right_starts, right_lengths = right.spans(right_rows)
    equal = lengths == right_lengths
    pairs = np.flatnonzero(equal & (lengths > 0))
    if len(pairs):
        # The bytes of all these pairs are compared at once, one pair after the other.
        counts = lengths[pairs]
        firsts = np.cumsum(counts) - counts
        inside = np.arange(int(counts.sum())) - np.repeat(firsts, counts)
        mine = left.text[np.repeat(left_starts[pairs], counts) + inside]
        theirs = right.text[np.repeat(right_starts[pairs], counts) + inside]
        equal[pairs] = np.logical_and.reduceat(mine == theirs, firsts)
    return equal
