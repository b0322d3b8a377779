"""Synthetic data of any size: a collection of clustered random vectors, and models that cost nothing."""

import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.support.files import atomic_folder

DIMENSION = 64  # ten million vectors are then 2.4 GiB
FILLER = "Its words are the same in all of them, because nothing reads them; a passage is as long as a sentence or two."
CLUSTERS = 1000
BLOCK = 50_000  # vectors generated at once


def large_collection(parent: Path, size: int) -> Path:
    """The folder of a collection of `size` passages: `corpus.jsonl`, `docid`, `vectors`; made on first use."""
    folder = parent / str(size)
    if not folder.exists():
        parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder, overwrite=False) as new:
            with open(new / "vectors", "wb") as file:
                for start in range(0, size, BLOCK):
                    vectors = clustered(np.random.default_rng(start + 1), min(BLOCK, size - start))
                    file.write(vectors.tobytes())
            with open(new / "docid", "w", encoding="utf-8") as file:
                file.writelines(f"doc{number}\n" for number in range(size))
            with open(new / "corpus.jsonl", "w", encoding="utf-8") as file:
                file.writelines(
                    f'{{"_id": "doc{number}", "title": "", "text": "Passage {number} of {size}. {FILLER}"}}\n'
                    for number in range(size)
                )
    return folder


def large_vectors(folder: Path) -> Floats:
    """The vectors of a large collection, float32 [size, d], memory-mapped."""
    return np.memmap(folder / "vectors", dtype=np.float32, mode="r").reshape(-1, DIMENSION)


def clustered(random: np.random.Generator, count: int) -> Floats:
    """Random unit vectors [count, d], each near one of 1,000 centres."""
    noise = random.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors = _centres()[random.integers(CLUSTERS, size=count)] + 0.7 * noise
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@cache
def _centres() -> Floats:
    return np.random.default_rng(0).normal(size=(CLUSTERS, DIMENSION)).astype(np.float32)


class NumberEncoder:
    """Encodes a query, which is a number, as the random vector with this seed."""

    def encode(self, query: str) -> Floats:
        """float32 [d]."""
        return clustered(np.random.default_rng([7, int(query)]), 1)[0]


class ChecksumReranker:
    """Scores between -6 and 6 from a checksum of the pair, at almost no cost."""

    fingerprint = "checksum"

    def predict(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Raw logits, float64 [len(pairs)]."""
        return np.array([zlib.crc32(f"{query} {text}".encode()) % 1201 / 100 - 6 for query, text in pairs])
