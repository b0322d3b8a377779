"""FAISS indexes by their factory string, such as `IVF4096,PQ48`: trained on a sample, filled piece by piece."""

import re
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line

ROWS_PER_ADD = 65_536  # vectors read from a memory-mapped file at a time
SAMPLE = 65_536
"""Vectors that an index is trained on at least, if there are as many."""
SAMPLE_PER_CENTROID = 64  # FAISS warns below 39 and leaves out what is above 256
_SEED = 0
_LISTS, _CODES, _NEIGHBOURS = re.compile(r"IVF(\d+)"), re.compile(r"PQ\d+x(\d+)"), re.compile(r"HNSW(\d+)")
_PLACE = re.compile(r"^Error in .* at \S+:\d+: (Error: )?")
_BITS = 8  # of a part of a product quantizer, if the string does not say it


def build_factory_index(vectors: np.ndarray, factory: str, *, nprobe: int) -> Any:
    """Build an index for inner products; the same vectors and string give the same index.

    Memory is needed for the sample and for the index, whose vectors may be compressed, but not for all vectors.

    Args:
        vectors: float32 [n, d], in memory or memory-mapped.
        factory: FAISS's factory string.
        nprobe: lists of an inverted file that a search reads, unless it says otherwise.

    Raises:
        TourError: if FAISS cannot build it.
    """
    import faiss

    count, dimension = vectors.shape
    index = _new_index(count, dimension, factory)
    _leave_out_polysemous_training(index)
    try:
        if not index.is_trained:
            index.train(_sample(vectors, factory))
        for start in range(0, count, ROWS_PER_ADD):
            index.add(np.ascontiguousarray(vectors[start : start + ROWS_PER_ADD]))
    except RuntimeError as error:
        raise TourError(f"FAISS cannot build --factory {factory}: {_reason(error)}; give another string.") from error
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:
        inverted.nprobe = min(nprobe, inverted.nlist)
    return index


def check_factory(count: int, dimension: int, factory: str) -> None:
    """Check that a factory string fits `count` vectors of `dimension` dimensions.

    Raises:
        TourError: if FAISS does not know the string, or it needs other dimensions or more vectors.
    """
    _new_index(count, dimension, factory)


def _new_index(count: int, dimension: int, factory: str) -> Any:
    import faiss

    # Looked at before FAISS does: it takes memory for any number of lists, and crashes with one neighbour.
    if any(int(number) < 2 for number in _NEIGHBOURS.findall(factory)):
        raise TourError(f"--factory {factory}: an HNSW graph needs at least 2 neighbours.")
    if "0" in _LISTS.findall(factory):
        raise TourError(f"--factory {factory}: an inverted file needs at least 1 list.")
    if (centroids := _centroids(factory)) > count:
        raise TourError(
            f"--factory {factory} has {centroids} centroids, which need at least as many documents, but there are "
            f"{count}; give a smaller number."
        )
    try:
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except (RuntimeError, MemoryError) as error:
        raise TourError(
            f"--factory {factory!r} is not an index of {dimension} dimensions that FAISS knows: {_reason(error)}."
        ) from error
    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise TourError(f"--factory {factory} does not rank by inner product; give another string.")
    return index


def _leave_out_polysemous_training(index: Any) -> None:
    """Train a product quantizer without what FAISS's factory adds to it.

    It takes seconds for each byte of a code, and only renumbers centroids for searches with a threshold of Hamming
    distances, which are not made here. Similarities are the same.
    """
    import faiss

    part: Any = faiss.downcast_index(index)
    while part is not None:
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False
        inner = getattr(part, "index", None) or getattr(part, "base_index", None)
        part = faiss.downcast_index(inner) if inner is not None else None


def _sample(vectors: np.ndarray, factory: str) -> np.ndarray:
    """Some vectors that training sees, chosen at random with a fixed seed, in their order."""
    size = max(SAMPLE, SAMPLE_PER_CENTROID * _centroids(factory))
    if size >= len(vectors):
        return np.ascontiguousarray(vectors)
    rows = np.random.default_rng(_SEED).choice(len(vectors), size, replace=False, shuffle=False)
    return np.ascontiguousarray(vectors[np.sort(rows)])


def _centroids(factory: str) -> int:
    """The largest number of centroids that are trained at once; 0 if there are none."""
    lists = [int(number) for number in _LISTS.findall(factory)]
    bits = [int(number) for number in _CODES.findall(factory)] or [_BITS] * ("PQ" in factory)
    return max([*lists, *(2 ** min(number, 64) for number in bits)], default=0)


def _reason(error: Exception) -> str:
    """What FAISS says, without the place in its source code."""
    return _PLACE.sub("", first_line(error)).strip(" .")[:200]
