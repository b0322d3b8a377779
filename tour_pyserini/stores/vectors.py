"""Sources of candidate vectors: the index itself, an encoded corpus, a function, or a source that a user registers.

Exact vectors of a compressed index also put its hits in exact order.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.data.input_files import read_lines
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_index import VECTORS_HINT, FaissIndex, VectorLookup
from tour_pyserini.stores.filters import Within, search_within
from tour_pyserini.stores.index_folder import Docids, read_index_files
from tour_pyserini.stores.store import Store
from tour_pyserini.support.files import atomic_write, cache_home, file_state

log = logging.getLogger(__name__)

# Hits of the compressed index that are re-ordered: its first 1,000 hits are cheap, but their order is not exact.
_REORDERED = 1000
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_sources: dict[str, Callable[..., VectorLookup]] = {}


def register_vector_source(name: str, open_source: Callable[..., VectorLookup]) -> None:
    """Add a source of candidate vectors, which `open_vectors` and `--vectors` then know as `NAME:REST`.

    Args:
        name: a letter, then letters, digits, `_`, `-` or `.`.
        open_source: called as `open_source(rest, docids=docids, dimension=d)`, where `rest` is the text after the colon
            and `docids` has the docid at each position of the index. It returns a function from positions [m] to
            vectors [m, d].

    Raises:
        TourError: if the name is not allowed or already registered.

    Example:
        def open_array(path, *, docids, dimension):
            array = np.load(path, mmap_mode="r")  # [documents, d], in the order of the index
            return lambda positions: array[positions]

        register_vector_source("array", open_array)
        TourSearcher(searcher, reranker, texts, vectors="array:vectors.npy")
    """
    if not _NAME.fullmatch(name) or name in ("encode", *_sources):
        raise TourError(f"a vector source cannot have the name {name!r}: give a letter, then letters or digits.")
    _sources[name] = open_source


def open_vectors(spec: Any, *, store: Store, docids: Sequence[str]) -> VectorLookup:
    """Open the vectors of candidates: a function from positions in the index [m] to vectors [m, d].

    Args:
        spec: None for the store's own vectors; the folder of an encoded corpus (a flat FAISS index, or Pyserini's
            JSON lines); `NAME:REST` for a registered source, unless a folder of this name exists; or a function from
            positions to vectors, which is returned as it is.
        store: the index that is searched.
        docids: the docid at each position of the index.

    Raises:
        TourError: if the vectors cannot be opened, or do not fit the index.
    """
    if spec is None:
        if isinstance(store, FaissIndex):
            store.fetch(np.zeros(1, dtype=np.int64))  # refused now rather than in the first update
        if not store.exact:
            log.warning("the index gives back compressed vectors, so updates are less exact; %s.", VECTORS_HINT)
        return store.fetch
    if isinstance(spec, str) and ":" in spec and not Path(spec).is_dir():
        name, _, rest = spec.partition(":")
        if _NAME.fullmatch(name):
            return _from_source(name, rest, docids=docids, dimension=store.dimension)
    return EncodedCorpus(Path(spec), docids=docids, dimension=store.dimension) if isinstance(spec, str | Path) else spec


def _from_source(name: str, rest: str, *, docids: Sequence[str], dimension: int) -> VectorLookup:
    """The vectors of a registered source, with a check of everything that it returns."""
    if name not in _sources:
        raise TourError(f"{name}:{rest} is neither a folder nor a vector source that is registered.")
    look_up = _sources[name](rest, docids=docids, dimension=dimension)

    def checked(ids: Ids) -> Floats:
        vectors = np.asarray(look_up(ids), dtype=np.float32)
        if vectors.shape != (len(ids), dimension) or not np.isfinite(vectors).all():
            shape, wanted = list(vectors.shape), [len(ids), dimension]
            raise TourError(f"the vector source {name!r} gave an array {shape} or NaN; it must give {wanted} numbers.")
        return vectors

    return checked


class EncodedCorpus:
    """Looks up the vectors [m, d] of the documents at positions [m] of an index; the corpus may have another order."""

    def __init__(self, folder: Path, *, docids: Sequence[str], dimension: int) -> None:
        """Open a folder with a flat FAISS index (`index`, `docid`), or with Pyserini's encoded JSON lines (`*.jsonl`).

        Args:
            folder: the encoded corpus.
            docids: the docid at each position of the index that is searched; each needs a vector.
            dimension: d of that index.

        Raises:
            TourError: if the folder is not an encoded corpus, or does not fit the index.
        """
        if (folder / "index").is_file():
            index, stored = read_index_files(folder)
            store = FaissIndex(index)
            if not (store.exact and store.readable):
                raise TourError(f"the encoded corpus {folder} is compressed too ({store.kind}); give a flat index.")
            self._vectors: VectorLookup = store.fetch
            stored_dimension = store.dimension
        elif files := sorted(folder.glob("*.jsonl")):
            matrix, stored = _open_json_lines(files)
            self._vectors, stored_dimension = lambda rows: np.array(matrix[rows]), matrix.shape[1]
        else:
            raise TourError(f"{folder} is not an encoded corpus: it has neither a FAISS index nor .jsonl files.")
        if stored_dimension != dimension:
            raise TourError(f"the encoded corpus {folder} has {stored_dimension} dimensions and the index {dimension}.")
        self._rows: Ids | None = None  # [size] the row of each document of the index; None: both have the same order
        if stored != docids:
            self._rows = np.fromiter((stored.positions.get(docid, -1) for docid in docids), np.int64, len(docids))
            if (self._rows < 0).any():
                missing = docids[int((self._rows < 0).argmax())]
                raise TourError(f"the encoded corpus {folder} has no vector for document {missing!r}; encode it too.")

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the documents at these positions."""
        return self._vectors(ids if self._rows is None else self._rows[ids])


def _open_json_lines(files: list[Path]) -> tuple[np.ndarray, Docids]:
    """The vectors float32 [n, d] and the docids of JSON lines.

    Both are converted to memory-mapped files in the cache folder once, so that they need not fit in memory.
    """
    state = repr([(str(file.resolve()), *file_state(file)) for file in files])
    path = cache_home() / "vectors" / hashlib.sha256(state.encode()).hexdigest()[:32]
    if not path.with_suffix(".docid").is_file():  # it is written last
        _convert(files, path)
    docids = Docids.read(path.with_suffix(".docid"))
    return np.memmap(path.with_suffix(".f32"), dtype=np.float32, mode="r").reshape(len(docids), -1), docids


def _convert(files: list[Path], path: Path) -> None:
    dimension = 0
    with atomic_write(path.with_suffix(".docid")) as names, atomic_write(path.with_suffix(".f32"), "wb") as out:
        for line in (line for file in files for line in read_lines(file)):
            record = line.json_object()
            docid = str(record.get("id", ""))
            if docid.split() != [docid]:
                line.refuse("has no `id` without white space")
            vector = np.array(record.get("vector", ()), dtype=np.float64).astype(np.float32)
            dimension = dimension or vector.size
            if not vector.size or vector.shape != (dimension,) or not np.isfinite(vector).all():
                line.refuse(f"has no `vector` of {dimension or 'finite'} numbers, as the first line has")
            names.write(f"{docid}\n")
            out.write(vector.tobytes())
        if not dimension:
            raise TourError(f"the encoded corpus {files[0].parent} has no vectors; encode the corpus again.")


class _RefinedIndex:
    """A compressed store whose `search` computes the similarities of hits from exact vectors."""

    def __init__(self, index: Store, vectors: VectorLookup) -> None:
        self._index, self._vectors = index, vectors

    def search(self, queries: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the queries [n, d] with exact similarities; see `Store.search`."""
        return self._refined(queries, self._index.search(queries, max(k, _REORDERED), threads=threads), k)

    def search_within(self, queries: Floats, k: int, within: Within, *, threads: int = 1) -> Hits:
        """The same among the documents that pass a filter."""
        found = search_within(self._index, queries, max(k, _REORDERED), within, threads=threads)
        return self._refined(queries, found, k)

    def _refined(self, queries: Floats, hits: Hits, k: int) -> Hits:
        similarities = np.full(hits.ids.shape, -np.inf, dtype=np.float32)
        # One query at a time: the vectors of all hits of a batch would take hundreds of megabytes.
        for row, (query, ids) in enumerate(zip(queries, hits.ids, strict=True)):
            is_hit = ids >= 0
            similarities[row, is_hit] = self._vectors(ids[is_hit]) @ query.astype(np.float32)
        order = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
        return Hits(np.take_along_axis(hits.ids, order, axis=1), np.take_along_axis(similarities, order, axis=1))


def in_order(store: Store, vectors: VectorLookup | None) -> Store | _RefinedIndex:
    """What is searched: where a compressed index has exact vectors stored beside it, its hits in their order.

    No passage is encoded, and no function of a user called, for the sake of the order.
    """
    return _RefinedIndex(store, vectors) if isinstance(vectors, EncodedCorpus) and not store.exact else store
