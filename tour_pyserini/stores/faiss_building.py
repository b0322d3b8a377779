"""Building FAISS indexes for inner products: flat (exact), HNSW graph, product quantisation, or by a factory string."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_factory import ROWS_PER_ADD, build_factory_index, check_factory
from tour_pyserini.stores.faiss_writing import write_faiss_index, write_flat_index
from tour_pyserini.support.devices import faiss_threads

if TYPE_CHECKING:
    import faiss

Kind = Literal["flat", "hnsw", "pq", "factory"]


def build_index(
    vectors: np.ndarray,
    *,
    kind: Kind = "flat",
    hnsw_m: int = 256,
    ef_construction: int = 256,
    pq_m: int = 192,
    pq_nbits: int = 8,
    factory: str = "Flat",
    nprobe: int = 16,
    threads: int | None = None,
) -> "faiss.Index":
    """Build the index that Pyserini's `pyserini.index.faiss` would build, with its defaults, or one that it does not.

    Args:
        vectors: float32 [n, d], in memory or memory-mapped.
        kind: `flat` (exact), `hnsw` (a graph), `pq` (compressed: the vectors read back are approximate), or `factory`.
        hnsw_m: neighbours of a node in the graph.
        ef_construction: candidates considered as neighbours of a node.
        pq_m: number of parts that a vector is cut into; it must divide d.
        pq_nbits: bits of the code of a part.
        factory: FAISS's factory string.
        nprobe: lists that a search reads if a factory string makes an inverted file.
        threads: FAISS uses at most this many; None: its default. Only with one thread is the graph always the same.

    Raises:
        TourError: if the settings do not fit the vectors.
    """
    count, dimension = _checked_shape(vectors)
    check_fit(
        count,
        dimension,
        kind=kind,
        hnsw_m=hnsw_m,
        ef_construction=ef_construction,
        pq_m=pq_m,
        pq_nbits=pq_nbits,
        factory=factory,
    )
    with faiss_threads(threads):
        if kind == "factory":
            return build_factory_index(vectors, factory, nprobe=nprobe)
        return _built(vectors, kind, hnsw_m=hnsw_m, ef_construction=ef_construction, pq_m=pq_m, pq_nbits=pq_nbits)


def write_index(
    vectors: np.ndarray, path: Path, *, kind: Kind = "flat", threads: int | None = None, **settings: Any
) -> None:
    """Write the index that `build_index` builds to a new file; a flat one needs no memory for its vectors.

    Raises:
        OSError: if the disk is full.
        TourError: if the settings do not fit the vectors.
    """
    if kind == "flat":
        _checked_shape(vectors)
        write_flat_index(vectors, path)
    else:
        write_faiss_index(build_index(vectors, kind=kind, threads=threads, **settings), path)


def check_fit(
    count: int,
    dimension: int,
    *,
    kind: Kind = "flat",
    hnsw_m: int = 256,
    ef_construction: int = 256,
    pq_m: int = 192,
    pq_nbits: int = 8,
    factory: str = "Flat",
    nprobe: int = 16,
) -> None:
    """Check the settings of `build_index` for `count` vectors of `dimension` dimensions, before they are computed.

    Raises:
        TourError: if `build_index` would refuse the settings.
    """
    if kind not in get_args(Kind):
        raise TourError(f"there is no index kind {kind!r}; choose one of {', '.join(get_args(Kind))}.")
    if kind == "hnsw" and (hnsw_m < 2 or ef_construction < 1):  # FAISS crashes with one neighbour
        raise TourError(f"an HNSW graph needs at least --M 2 and --efC 1, not {hnsw_m} and {ef_construction}.")
    if kind == "pq":
        _check_pq(count, dimension, pq_m, pq_nbits)
    if kind == "factory":
        check_factory(count, dimension, factory)


def _built(vectors: np.ndarray, kind: Kind, *, hnsw_m: int, ef_construction: int, pq_m: int, pq_nbits: int) -> Any:
    import faiss

    count, dimension = vectors.shape
    index: Any
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimension, hnsw_m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = ef_construction
    elif kind == "pq":
        index = faiss.IndexPQ(dimension, pq_m, pq_nbits, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors)
    else:
        index = faiss.IndexFlatIP(dimension)
    for start in range(0, count, ROWS_PER_ADD):
        index.add(np.ascontiguousarray(vectors[start : start + ROWS_PER_ADD]))
    return index


def _checked_shape(vectors: np.ndarray) -> tuple[int, int]:
    if vectors.ndim != 2 or vectors.dtype != np.float32 or not vectors.size:
        raise TourError(f"an index needs float32 vectors [n, d], not {vectors.dtype} {list(vectors.shape)}.")
    return vectors.shape[0], vectors.shape[1]


def _check_pq(count: int, dimension: int, pq_m: int, pq_nbits: int) -> None:
    if pq_m < 1 or dimension % pq_m:
        raise TourError(f"vectors of {dimension} dimensions cannot be cut into {pq_m} equal parts; change --pq-m.")
    if count < 2**pq_nbits:
        raise TourError(
            f"{2**pq_nbits} centroids (--pq-nbits {pq_nbits}) need at least as many documents, but there are {count}; "
            "lower --pq-nbits."
        )
