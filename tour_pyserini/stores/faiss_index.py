"""A store that is a FAISS index: exact search of flat indexes, effort of approximate ones, and vectors read back."""

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError
from tour_pyserini.stores.filters import Within, first_passing
from tour_pyserini.support.devices import faiss_threads

log = logging.getLogger(__name__)

VectorLookup = Callable[[Ids], Floats]
"""A function from positions [m] in an index to vectors [m, d]."""

VECTORS_HINT = "give the encoded corpus (--vectors FOLDER), or encode passages during the search (--vectors encode)"

_FLAT = ("IndexFlat", "IndexFlatIP")
# FAISS classes that store vectors as they were added; all others compress them.
_EXACT = (*_FLAT, "IndexHNSWFlat", "IndexIVFFlat")
# Above this many numbers in a batch, FAISS finds the lists of an inverted file with another kernel, which rounds
# differently. In blocks below this limit, a query's hits do not depend on how many queries are searched with it.
_BLOCK_NUMBERS = 127_999
# Hits that are fetched in addition to k. Rounding changes the rank of a hit by one or two, unless there are ties.
EXTRA_HITS = 16
# With fewer queries, a matrix product is not faster.
_MATRIX_FROM = 16
_UNIT_ROUNDOFF = 2.0**-24  # float32
_ROWS = 65_536  # vectors whose norms are computed at a time
COMPARED = 20_000  # so few documents that pass a filter are compared one by one

_threshold_lock = threading.Lock()


class FaissIndex:
    """Searches an inner-product FAISS index; a query's hits do not depend on the other queries of its batch.

    Attributes:
        dimension: d of the vectors.
        size: how many vectors it holds.
        kind: name of the FAISS class.
        exact: whether `fetch` gives the vectors as they were added, not compressed ones.

    Example:
        hits = FaissIndex(searcher.index).search(queries, 10, threads=2)
    """

    def __init__(self, index: Any) -> None:
        import faiss

        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise TourError("the index ranks by distance, not by inner product; build an inner-product index.")
        if not index.ntotal:
            raise TourError("the index has no vectors; build it again.")
        # `downcast_index` returns a view, so the original index must be kept alive.
        self._index, self._inner = index, faiss.downcast_index(index)
        self.dimension: int = index.d
        self.size: int = index.ntotal
        self.kind = type(self._inner).__name__
        self.exact = self.kind in _EXACT
        self._flat = _FlatSearch(self._inner) if self.kind in _FLAT else None
        self._warned = False

    @cached_property
    def readable(self) -> bool:
        """Whether the index can give vectors back."""
        import faiss

        try:
            inverted = faiss.try_extract_index_ivf(self._inner)
            if inverted is not None:  # an inverted file needs this map to find a vector by its position
                inverted.make_direct_map()
            self._inner.reconstruct_batch(np.zeros(1, dtype=np.int64))
        except RuntimeError:
            return False
        return True

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] at the positions [m]."""
        if not self.readable:
            raise TourError(f"the index ({self.kind}) cannot give its vectors back; {VECTORS_HINT}.")
        return self._inner.reconstruct_batch(np.ascontiguousarray(ids, dtype=np.int64))

    def search(self, queries: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the queries [n, d], best first; fewer if the index is smaller.

        Returns:
            ids and similarities [n, min(k, size)], padded with -1 and minus infinity if fewer were found.
        """
        with faiss_threads(threads):
            hits = self._search(np.ascontiguousarray(queries, dtype=np.float32), min(k, self.size))
        if hits.ids.size and int(hits.ids.max()) >= self.size:
            raise TourError("the index is damaged: it gives ids outside its vectors; build it again.")
        return hits

    def search_within(self, queries: Floats, k: int, within: Within, *, threads: int = 1) -> Hits:
        """The k hits of each of the queries [n, d] among the documents that pass; fewer if not so many do.

        The hits of a flat index, and of any index where few documents pass, are those of a flat index of these alone.
        """
        vectors, wanted = np.ascontiguousarray(queries, dtype=np.float32), min(k, len(within.ids))
        if not wanted:
            return Hits(np.empty((len(vectors), 0), dtype=np.int64), np.empty((len(vectors), 0), dtype=np.float32))
        with faiss_threads(threads):
            if self._flat is not None:
                return self._flat.search(vectors, wanted, within)
            if len(within.ids) <= COMPARED and self.readable:
                found = _FlatSearch(_flat_index(self.fetch(within.ids))).search(vectors, wanted)
                return Hits(within.ids[found.ids], found.similarities)
            if (parameters := self._parameters(within, wanted)) is not None:
                return self._search(vectors, wanted, params=parameters)
            return first_passing(
                lambda rows, more: self._search(vectors[rows], more), len(vectors), wanted, within, self.size
            )

    def _parameters(self, within: Within, wanted: int) -> Any:
        """What makes a graph or an inverted file find documents that pass alone; None for other kinds of index."""
        faiss: Any = importlib.import_module("faiss")
        inner: Any = self._inner
        if isinstance(inner, faiss.IndexHNSW):
            # Of the nodes it looks at, as large a share passes as of all documents.
            effort = max(inner.hnsw.efSearch, wanted) * self.size // len(within.ids)
            return faiss.SearchParametersHNSW(sel=within.selector, efSearch=effort)
        if type(inner) in (faiss.IndexIVFFlat, faiss.IndexIVFPQ, faiss.IndexIVFScalarQuantizer):
            return faiss.SearchParametersIVF(sel=within.selector, nprobe=inner.nprobe)
        return None

    def _search(self, vectors: Floats, wanted: int, **options: Any) -> Hits:
        if self._flat is not None:
            return self._flat.search(vectors, wanted)
        block = max(1, _BLOCK_NUMBERS // self.dimension)
        parts = [self._index.search(vectors[i : i + block], wanted, **options) for i in range(0, len(vectors), block)]
        similarities, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        if (ids < 0).any() and not self._warned:
            log.warning(
                "the index found fewer than %d hits for some queries; raise efSearch (HNSW) or nprobe (IVF).", wanted
            )
            self._warned = True
        return Hits(ids, np.where(ids >= 0, similarities, -np.inf))


def set_search_effort(index: Any, name: str, *, ef_search: int | None = None, nprobe: int | None = None) -> None:
    """Change how much of an approximate FAISS index a search looks at; None leaves it as the index was built.

    Args:
        index: a FAISS index.
        name: of the index, for messages.
        ef_search: efSearch of an HNSW index.
        nprobe: lists of an inverted file that a query searches.

    Raises:
        TourError: if it is given for another kind of index.
    """
    import faiss

    inner = faiss.downcast_index(index)
    if ef_search is not None:
        if not hasattr(inner, "hnsw"):
            raise TourError(f"--ef-search is for HNSW indexes and {name} is {type(inner).__name__}; leave it out.")
        inner.hnsw.efSearch = ef_search
    if nprobe is not None:
        inverted = faiss.try_extract_index_ivf(inner)
        if inverted is None:
            raise TourError(f"--nprobe is for inverted files and {name} is {type(inner).__name__}; leave it out.")
        inverted.nprobe = nprobe


class _FlatSearch:
    """Finds the k hits with the largest inner products; of equal ones, the larger id is first, as in FAISS.

    FAISS uses matrix products, which are several times faster, only for large batches (128,000 numbers), and they round
    differently. Here all batches of 16 or more queries use them:

    1. FAISS finds k hits and a few more with a matrix product.
    2. The similarities of these hits are computed again one by one, always with the same operations, and sorted.
    3. If the k-th similarity is above the last one of FAISS by more than the rounding error, no other vector can be
       among the k best. Otherwise more hits are fetched.
    """

    def __init__(self, index: Any) -> None:
        """Search an `IndexFlat` for inner products, as `faiss.downcast_index` returns it."""
        self._index = index

    def search(self, vectors: Floats, k: int, within: Within | None = None) -> Hits:
        """The hits [n, k] of the queries, float32 [n, d] in C order; k is at most the number of those that pass."""
        size, options = self._index.ntotal, dict[str, Any]()
        if within is not None:
            faiss: Any = importlib.import_module("faiss")
            size, options = len(within.ids), {"params": faiss.SearchParameters(sel=within.selector)}
        ids = np.empty((len(vectors), k), dtype=np.int64)
        similarities = np.empty((len(vectors), k), dtype=np.float32)
        rows, wanted = np.arange(len(vectors)), k + EXTRA_HITS
        rounding = _rounding_error(vectors, self._largest_norm)
        while len(rows):
            wanted = min(wanted, size)
            hits, last = self._fetch(vectors[rows], wanted, options)
            ids[rows], similarities[rows] = hits.ids[:, :k], hits.similarities[:, :k]
            if wanted == size:
                break
            rows = rows[hits.similarities[:, k - 1] <= last + rounding[rows]]
            wanted *= 2
        return Hits(ids, similarities)

    def _fetch(self, vectors: Floats, wanted: int, options: dict[str, Any]) -> tuple[Hits, Floats]:
        """The hits [n, wanted] in their final order, and FAISS's similarity of the last of them [n]."""
        with _matrix_products(len(vectors) >= _MATRIX_FROM):
            rough, ids = self._index.search(vectors, wanted, **options)
        similarities = _similarities(self._index, vectors, ids)
        order = np.lexsort((-ids, -similarities), axis=1)
        return Hits(*(np.take_along_axis(values, order, axis=1) for values in (ids, similarities))), rough[:, -1]

    @cached_property
    def _largest_norm(self) -> float:
        import faiss

        size = self._index.ntotal
        stored = faiss.rev_swig_ptr(self._index.get_xb(), size * self._index.d).reshape(size, self._index.d)
        parts = (stored[start : start + _ROWS] for start in range(0, size, _ROWS))
        norms = [float(np.sqrt(np.einsum("nd,nd->n", part, part).max())) for part in parts]
        if not np.isfinite(norms).all():
            raise TourError("the index has vectors with NaN or infinity; build it again.")
        return max(norms)


def rank_exactly(query: Floats, ids: Ids, vectors: Floats) -> tuple[Ids, Floats, float]:
    """Put hits that something else found in the order of a flat index.

    Args:
        query: [d] the query.
        ids: [m] the hits.
        vectors: [m, d] their vectors.

    Returns:
        ids [m] and similarities [m], with the bits that `FaissIndex` gives for them, best first; and an upper bound of
        the difference between these similarities and what another float32 computation gives.
    """
    index = _flat_index(vectors)
    similarities = _similarities(index, query[None, :], np.arange(len(vectors), dtype=np.int64)[None, :])[0]
    order = np.lexsort((-ids, -similarities))
    largest = float(np.linalg.norm(vectors, axis=1).max())
    return ids[order], similarities[order], float(_rounding_error(query, largest))


def _flat_index(vectors: Floats) -> Any:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, dtype=np.float32))
    return index


def _rounding_error(queries: Floats, largest_norm: float) -> Floats:
    """An upper bound [n] of the difference between two ways to compute similarities of queries [n, d] in float32.

    `largest_norm` is that of the vectors that they are compared with.
    """
    relative_error = 1.01 * queries.shape[-1] * _UNIT_ROUNDOFF  # of one way; relative to the product of the norms
    return 2 * relative_error * np.linalg.norm(queries, axis=-1) * largest_norm


def _similarities(index: Any, vectors: Floats, ids: Ids) -> Floats:
    """Inner products [n, m], each with the same sequence of operations for all n and m."""
    import faiss

    result = np.empty(ids.shape, dtype=np.float32)
    index.compute_distance_subset(
        len(vectors), faiss.swig_ptr(vectors), ids.shape[1], faiss.swig_ptr(result), faiss.swig_ptr(ids)
    )
    return result


@contextmanager
def _matrix_products(use: bool) -> Iterator[None]:
    """Make FAISS use matrix products in this block for any number of queries, if `use` is true."""
    import faiss

    if not use:
        yield
        return
    # The threshold is global: without the lock, two threads could restore each other's value.
    with _threshold_lock:
        before = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = 1
        try:
            yield
        finally:
            faiss.cvar.distance_compute_blas_threshold = before
