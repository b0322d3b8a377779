"""From docids to positions in an index: a sorted table of hashes, 12 bytes per docid; equal hashes are told apart."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakValueDictionary

import numpy as np

from tour_pyserini.core.arrays import Ids
from tour_pyserini.stores.docids import Docids

_BLOCK = 1 << 18  # docids that are hashed or looked up at a time
_WORD = 8  # bytes that are hashed at a time
_FACTOR, _SHIFT, _BITS = 0x9E3779B97F4A7C15, 29, 2**64 - 1
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(_WORD + 1)], dtype=np.uint64)

_shared: "WeakValueDictionary[int, Positions]" = WeakValueDictionary()
"""Tables that are in use, by the identity of their docids, which each of them keeps alive."""


def positions_of(docids: Sequence[str]) -> Mapping[str, int]:
    """The position of each docid; of equal docids, the last one. Who asks for the same `Docids` shares one table."""
    if not isinstance(docids, Docids):
        return {docid: i for i, docid in enumerate(docids)}
    positions = _shared.get(id(docids))
    return _shared.setdefault(id(docids), Positions(docids)) if positions is None else positions


def difference(docids: Sequence[str], positions: Mapping[str, int]) -> tuple[str | None, str | None]:
    """A docid that has no position, and one that has a position and is not among the docids; None where there is none.

    Example:
        >>> difference(["MED-10", "MED-12"], {"MED-10": 0, "MED-14": 1})
        ('MED-12', 'MED-14')
    """
    if isinstance(docids, Docids) and isinstance(positions, Positions):
        return positions.difference(docids)
    known = set(docids)
    extra = next((docid for docid in docids if docid not in positions), None)
    return extra, next((docid for docid in positions if docid not in known), None)


class Positions(Mapping[str, int]):
    """The position of each of many docids; of equal docids, the last one.

    Example:
        >>> positions = Positions(Docids.of(["MED-10", "MED-14"]))
        >>> positions["MED-14"], positions.get("MED-12")
        (1, None)
    """

    def __init__(self, docids: Docids) -> None:
        """Hash and sort the docids."""
        self._docids = docids
        hashes = hashes_of(docids)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        if (self._hashes[1:] == self._hashes[:-1]).any():
            # Equal hashes must be in the order of their positions. A stable sort takes three times as long.
            order = np.argsort(hashes, kind="stable")
        self._order = order.astype(np.uint32 if len(order) < 2**32 else np.int64)

    def __getitem__(self, docid: str) -> int:
        if isinstance(docid, str):
            # Numbers of a memoryview are Python's, which compare faster than NumPy's.
            wanted, hashes = hash_of(docid), memoryview(self._hashes)  # type: ignore[arg-type]
            at = bisect_right(hashes, wanted) - 1
            while at >= 0 and hashes[at] == wanted:
                position = int(self._order[at])
                if self._docids[position] == docid:
                    return position
                at -= 1
        raise KeyError(docid)

    def __bool__(self) -> bool:
        return len(self._docids) > 0  # counting different docids takes long

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        return (docid for position, docid in enumerate(self._docids) if self[docid] == position)

    def difference(self, docids: Docids) -> tuple[str | None, str | None]:
        """The function `difference`, for millions of docids."""
        if docids == self._docids:  # as a rule; a comparison takes a thirtieth of the time
            return None, None
        found = self.find(docids)
        met = np.zeros(len(self._docids), dtype=bool)
        met[found[found >= 0]] = True
        # Of equal docids only the last one is found: the others were met if it was.
        missing = (self._docids[int(at)] for at in np.flatnonzero(~met))
        missing = (docid for docid in missing if not met[self[docid]])
        unknown = np.flatnonzero(found < 0)
        return docids[int(unknown[0])] if len(unknown) else None, next(missing, None)

    def find(self, docids: Docids) -> Ids:
        """The positions [n] of docids; -1 where there is none."""
        found = np.full(len(docids), -1, dtype=np.int64)
        hashes = hashes_of(docids)
        for first in range(0, len(docids), _BLOCK):
            # In the order of their hashes, neighbours in the table are looked up one after the other.
            rows = first + np.argsort(hashes[first : first + _BLOCK])
            at = np.searchsorted(self._hashes, hashes[rows], side="right") - 1
            while len(rows):
                rows, at = rows[at >= 0], at[at >= 0]
                same_hash = self._hashes[at] == hashes[rows]
                rows, at = rows[same_hash], at[same_hash]
                positions = self._order[at].astype(np.int64)
                same = _equal(docids, rows, self._docids, positions)
                found[rows[same]] = positions[same]
                rows, at = rows[~same], at[~same] - 1
        return found


def hashes_of(docids: Docids) -> np.ndarray:
    """The 64-bit hash of each docid, uint64 [n]; the same on every machine."""
    hashes = np.empty(len(docids), dtype=np.uint64)
    for first in range(0, len(docids), _BLOCK):
        starts, ends = docids.starts(first, min(first + _BLOCK, len(docids))), docids.ends[first : first + _BLOCK]
        begin = int(starts[0])
        # Words are read at any byte, also beyond the last docid.
        text = np.concatenate((docids.text[begin : int(ends[-1])], np.zeros(_WORD, dtype=np.uint8)))
        words = np.ndarray(len(text) - _WORD + 1, dtype="<u8", buffer=text, strides=(1,))
        at, left = starts - begin, ends.astype(np.int64) - starts
        values = left.astype(np.uint64)
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


def hash_of(docid: str) -> int:
    """The hash of one docid, as `hashes_of` computes it."""
    text = docid.encode("utf-8", "surrogatepass")
    value = len(text)
    for start in range(0, len(text), _WORD):
        value = (value ^ int.from_bytes(text[start : start + _WORD], "little")) * _FACTOR & _BITS
        value ^= value >> _SHIFT
    return value


def _equal(left: Docids, left_rows: Ids, right: Docids, right_rows: Ids) -> np.ndarray:
    """Whether docids are equal, pair by pair: bool [m]."""
    left_starts, left_lengths = _spans(left, left_rows)
    right_starts, right_lengths = _spans(right, right_rows)
    equal = left_lengths == right_lengths
    pairs = np.flatnonzero(equal & (left_lengths > 0))
    if len(pairs):
        # The bytes of all these pairs are compared at once, one pair after the other.
        counts = left_lengths[pairs]
        firsts = np.cumsum(counts) - counts
        inside = np.arange(int(counts.sum())) - np.repeat(firsts, counts)
        mine = left.text[np.repeat(left_starts[pairs], counts) + inside]
        theirs = right.text[np.repeat(right_starts[pairs], counts) + inside]
        equal[pairs] = np.logical_and.reduceat(mine == theirs, firsts)
    return equal


def _spans(docids: Docids, rows: Ids) -> tuple[Ids, Ids]:
    """Where docids begin in the text, and their lengths in bytes."""
    starts = np.where(rows > 0, docids.ends[rows - 1].astype(np.int64) + 1, 0)
    return starts, docids.ends[rows].astype(np.int64) - starts
