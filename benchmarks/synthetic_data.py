"""Synthetic data of any size: an index of clustered random vectors, and models and texts that cost nothing."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats

DIMENSION = 128
CLUSTERS = 1000
BLOCK = 50_000  # vectors generated at once
NEIGHBOURS, CONSIDERED, SEARCHED = 16, 40, 64  # HNSW: M, efConstruction, efSearch


def index_folder(parent: Path, kind: str, size: int) -> Path:
    """The folder of a `flat` or `hnsw` index with `size` vectors, as Pyserini reads it; built on first use."""
    import faiss

    folder = parent / f"world.{kind}.{size}"
    if not (folder / "docid").exists():
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "flat":
            index: Any = faiss.IndexFlatIP(DIMENSION)
        else:
            index = faiss.IndexHNSWFlat(DIMENSION, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction, index.hnsw.efSearch = CONSIDERED, SEARCHED
        for vectors in _vectors(size):
            index.add(vectors)
        faiss.write_index(index, str(folder / "index"))
        (folder / "docid").write_text("".join(f"d{number}\n" for number in range(size)))
    return folder


def _vectors(size: int) -> Iterator[Floats]:
    for start in range(0, size, BLOCK):
        yield clustered(np.random.default_rng(start + 1), min(BLOCK, size - start))


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


class NamedTexts(Mapping[str, str]):
    """Passages whose text is their docid."""

    def __getitem__(self, docid: str) -> str:
        return docid

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[str]:
        return iter(())
