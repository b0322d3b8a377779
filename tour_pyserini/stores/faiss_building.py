"""Building FAISS indexes for inner products: flat (exact), HNSW graph, or by a factory string.

Vectors may be memory-mapped: memory is needed for a sample to train on and for the index, not for all vectors.
"""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.devices import faiss_threads

_Kind = Literal["flat", "hnsw", "factory"]

ROWS = 65_536
"""Vectors that are added or written at a time."""
_SAMPLE = 65_536  # vectors that an index of a factory string is trained on at least, if there are as many
_SAMPLE_PER_CENTROID = 64  # FAISS warns below 39 and leaves out what is above 256
_SEED = 0
_BYTES = 1 << 20  # that FAISS hands over at a time to be written
_LISTS, _CODES = re.compile(r"IVF(\d+)"), re.compile(r"PQ\d+x(\d+)")
_CRASHES = re.compile(r"HNSW0*[01](?!\d)|IVF0+(?!\d)|PQ\d+x0+(?!\d)")
_BITS = 8  # of a part of a product quantizer, if the string does not say it


def check_fit(
    count: int,
    dimension: int,
    *,
    kind: _Kind = "flat",
    hnsw_m: int = 256,
    ef_construction: int = 256,
    factory: str = "Flat",
    nprobe: int = 16,
) -> Any:
    """Make the empty index of some settings, and so check them before `count` vectors are computed.

    Args:
        count: how many vectors there will be.
        dimension: their dimension d.
        kind: of the index.
        hnsw_m: neighbours of a node in the graph.
        ef_construction: candidates considered as neighbours of a node.
        factory: FAISS's factory string.
        nprobe: lists of an inverted file that a search reads; it fits any index.

    Raises:
        TourError: if they do not fit.
    """
    import faiss

    if kind == "flat":
        return faiss.IndexFlatIP(dimension)
    if kind == "hnsw":
        if hnsw_m < 2 or ef_construction < 1:  # FAISS crashes with one neighbour
            raise TourError(f"an HNSW graph needs at least --M 2 and --efC 1, not {hnsw_m} and {ef_construction}.")
        graph = faiss.IndexHNSWFlat(dimension, hnsw_m, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = ef_construction
        return graph
    return _factory_index(count, dimension, factory)


def write_index(
    vectors: np.ndarray, path: Path, *, kind: _Kind = "flat", threads: int | None = None, **settings: Any
) -> None:
    """Write the index that Pyserini's `pyserini.index.faiss` would build, with its defaults, or one that it does not.

    Args:
        vectors: float32 [n, d], in memory or memory-mapped; a flat index needs no memory for them.
        path: a new file.
        kind: `flat` (exact), `hnsw` (a graph), or `factory`.
        threads: FAISS uses at most this many; None: its default. Only with one thread is the graph always the same.
        settings: of the kind, see `check_fit`.

    Raises:
        OSError: if the disk is full.
        TourError: if the settings do not fit the vectors.
    """
    import faiss

    if kind == "flat":
        _write_flat_index(vectors, path)
        return
    index = check_fit(*vectors.shape, kind=kind, **settings)
    with faiss_threads(threads):
        if not index.is_trained:
            index.train(_sample(vectors, settings["factory"]))
        for start in range(0, len(vectors), ROWS):
            index.add(np.ascontiguousarray(vectors[start : start + ROWS]))
    if inverted := faiss.try_extract_index_ivf(index):
        inverted.nprobe = min(settings.get("nprobe", 16), inverted.nlist)
    write_faiss_index(index, path)


def write_faiss_index(index: Any, path: Path) -> None:
    """Write an index to a new file, with the bytes of `faiss.write_index`, which does not notice a full disk.

    Raises:
        OSError: if the disk is full.
    """
    import faiss

    # What a full disk refuses stays in this buffer: closing the file raises the system's error after that of FAISS.
    with open(path, "wb", buffering=2 * _BYTES) as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write, _BYTES))  # type: ignore[attr-defined]


def _write_flat_index(vectors: np.ndarray, path: Path) -> None:
    """Write a flat index with the bytes that FAISS would write, without having its vectors [n, d] in memory.

    The file is the header of an empty index with another number of vectors, and the vectors.
    """
    import faiss

    count, dimension = vectors.shape
    header = faiss.serialize_index(faiss.IndexFlatIP(dimension))
    # The number of vectors stands after four letters and the dimension; how many numbers follow, at the end.
    header[8:16].view("<i8")[0] = count
    header[-8:].view("<u8")[0] = count * dimension
    with open(path, "wb") as file:
        file.write(header.tobytes())
        for start in range(0, count, ROWS):
            file.write(np.ascontiguousarray(vectors[start : start + ROWS], dtype="<f4").tobytes())


def _factory_index(count: int, dimension: int, factory: str) -> Any:
    import faiss

    if found := _CRASHES.search(factory):
        raise TourError(
            f"--factory {factory}: FAISS crashes with {found[0]}; give 2 neighbours, 1 list, 1 bit or more."
        )
    if (centroids := _centroids(factory)) > count:
        raise TourError(f"--factory {factory} has {centroids} centroids for {count} vectors; give a smaller number.")
    try:
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except (RuntimeError, MemoryError) as error:
        reason = f"no index of {dimension} dimensions that FAISS knows: {first_line(error):.200}"
        raise TourError(f"--factory {factory} is {reason}.") from error
    _leave_out_polysemous_training(index)
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
    size = max(_SAMPLE, _SAMPLE_PER_CENTROID * _centroids(factory))
    if size >= len(vectors):
        return np.ascontiguousarray(vectors)
    rows = np.random.default_rng(_SEED).choice(len(vectors), size, replace=False, shuffle=False)
    return np.ascontiguousarray(vectors[np.sort(rows)])


def _centroids(factory: str) -> int:
    """The largest number of centroids that are trained at once; 0 if there are none."""
    lists = [int(number) for number in _LISTS.findall(factory)]
    bits = [int(number) for number in _CODES.findall(factory)] or [_BITS] * ("PQ" in factory)
    return max([*lists, *(2 ** min(number, 64) for number in bits)], default=0)
