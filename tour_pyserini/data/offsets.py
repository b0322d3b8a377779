"""Offsets of documents in a corpus file: 16 bytes per document, looked up by a hash of its id."""

import hashlib
import logging
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write, cache_home
from tour_pyserini.support.memo import file_state

log = logging.getLogger(__name__)

# The offsets of smaller files are not saved: scanning such a file takes no noticeable time.
SAVED_FROM_BYTES = 64 * 2**20


class Offsets(NamedTuple):
    """Hashes of ids, ascending, and the byte offset of each document's line; both uint64 [documents]."""

    hashes: np.ndarray
    starts: np.ndarray

    def find(self, docid: str) -> list[int]:
        """Offsets of the lines that may have this id: usually none or one; several if their hashes are equal."""
        return self._with_hash(np.uint64(hash_of(docid)))

    def collisions(self) -> Iterator[list[int]]:
        """Groups of lines whose ids have equal hashes, each in file order; only these lines can repeat an id."""
        for repeated in np.unique(self.hashes[1:][self.hashes[1:] == self.hashes[:-1]]):
            yield sorted(self._with_hash(repeated))

    def _with_hash(self, wanted: np.uint64) -> list[int]:
        left, right = (int(np.searchsorted(self.hashes, wanted, side)) for side in ("left", "right"))
        return self.starts[left:right].tolist()


def hash_of(docid: str) -> int:
    """A 64-bit hash (BLAKE2b) that is the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(docid.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def collect(documents: Iterable[tuple[str, int]]) -> Offsets:
    """Make offsets from (docid, byte offset) pairs in any order."""
    hashes, starts = array("Q"), array("Q")
    for docid, start in documents:
        hashes.append(hash_of(docid))
        starts.append(start)
    unsorted = np.frombuffer(hashes, dtype=np.uint64) if hashes else np.empty(0, np.uint64)
    order = np.argsort(unsorted, kind="stable")
    return Offsets(unsorted[order], np.array(starts, dtype=np.uint64)[order])


def load(path: Path) -> Offsets | None:
    """Load the saved offsets of a file; None if there are none for its present state (see `file_state`)."""
    state = file_state(path)
    if state[0] < SAVED_FROM_BYTES:
        return None
    saved = _saved_path(path)
    try:
        values = np.load(saved, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = values.dtype == np.uint64 and values.ndim == 1 and values.size >= 2 and values.size % 2 == 0
    if not whole or values[-1] != _digest(values[:-1].data):
        log.warning("%s is damaged; the corpus is scanned again", saved)
        return None
    return Offsets(*np.split(values[:-2], 2)) if values[-2] == _digest(repr(state).encode()) else None


def save(path: Path, offsets: Offsets, state: tuple[int, ...]) -> None:
    """Save the offsets in the cache folder for the next time, in place of older ones of the same path.

    If that is not possible, only log it; a file that was changed while it was scanned is not saved.

    Args:
        path: the file.
        offsets: its offsets.
        state: its state before it was scanned.
    """
    if state[0] < SAVED_FROM_BYTES or file_state(path) != state:
        return
    values = np.concatenate((*offsets, [_digest(repr(state).encode())]))
    try:
        with atomic_write(_saved_path(path), "wb") as file:
            np.save(file, np.append(values, _digest(values.data)), allow_pickle=False)
    except (TourError, OSError) as error:
        log.info("the offsets of %s are not saved: %s", path, error)


def _saved_path(path: Path) -> Path:
    """Where the offsets of a file are saved."""
    return cache_home() / "offsets" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()}.npy"


def _digest(content: bytes | memoryview) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little"))
