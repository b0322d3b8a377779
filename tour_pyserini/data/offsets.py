"""Where each document of a large file begins: 16 bytes per document, found again by a hash of its id."""

import hashlib
import logging
import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import cache_home, written_whole

log = logging.getLogger(__name__)

# A smaller file is scanned faster than anybody notices.
KEPT_FROM_BYTES = 64 * 2**20


class Offsets(NamedTuple):
    """Hashes of ids, ascending, and the byte at which each one's line begins; both uint64 [documents]."""

    hashes: np.ndarray
    starts: np.ndarray

    def find(self, docid: str) -> list[int]:
        """The lines that may hold this id: none, one, or in the case of a collision several."""
        return self._among(np.uint64(hash_of(docid)))

    def collisions(self) -> Iterator[list[int]]:
        """Groups of lines whose ids have the same hash, each in file order: only they can be duplicates."""
        for repeated in np.unique(self.hashes[1:][self.hashes[1:] == self.hashes[:-1]]):
            yield sorted(self._among(repeated))

    def _among(self, wanted: np.uint64) -> list[int]:
        left, right = (int(np.searchsorted(self.hashes, wanted, side)) for side in ("left", "right"))
        return self.starts[left:right].tolist()


def hash_of(docid: str) -> int:
    """64 bits of BLAKE2b, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(docid.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def collect(found: Iterable[tuple[str, int]]) -> Offsets:
    """Offsets from (docid, start) pairs in any order."""
    hashes, starts = array("Q"), array("Q")
    for docid, start in found:
        hashes.append(hash_of(docid))
        starts.append(start)
    unsorted = np.frombuffer(hashes, dtype=np.uint64) if hashes else np.empty(0, np.uint64)
    order = np.argsort(unsorted, kind="stable")
    return Offsets(unsorted[order], np.array(starts, dtype=np.uint64)[order])


def recall(path: Path) -> Offsets | None:
    """The offsets kept for this very file (path, size, time of change), if they are there and undamaged."""
    kept = _kept_at(path)
    if kept is None:
        return None
    try:
        values = np.load(kept, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if values.dtype != np.uint64 or values.ndim != 1 or values.size % 2 == 0 or values[-1] != _digest(values[:-1]):
        log.warning("the offsets in %s are damaged and are made again", kept)
        return None
    return Offsets(*np.split(values[:-1], 2))


def keep(path: Path, offsets: Offsets) -> None:
    """Keep the offsets for the next time; a cache that cannot be written is done without."""
    kept = _kept_at(path)
    if kept is None:
        return
    values = np.concatenate(offsets)
    try:
        with written_whole(kept, "wb") as file:
            np.save(file, np.append(values, _digest(values)), allow_pickle=False)
    except (TourError, OSError) as error:
        log.info("offsets are not kept: %s", error)


def _kept_at(path: Path) -> Path | None:
    about = os.stat(path)
    if about.st_size < KEPT_FROM_BYTES:
        return None
    key = f"{path.resolve()}\n{about.st_size}\n{about.st_mtime_ns}"
    return cache_home() / "offsets" / f"{hashlib.sha256(key.encode()).hexdigest()}.npy"


def _digest(values: np.ndarray) -> np.uint64:
    digest = hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))
