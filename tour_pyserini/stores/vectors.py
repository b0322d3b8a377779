"""Sources of candidate vectors: the index itself, an encoded corpus, a function, or a source that a user registers."""

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.errors import TourError
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.index_vectors import VectorLookup
from tour_pyserini.stores.store import Store

log = logging.getLogger(__name__)

OpenSource = Callable[..., VectorLookup]
"""Called as `open_source(rest, docids=docids, dimension=d)`."""

_HINT = "give the encoded corpus (--vectors FOLDER), or encode passages during the search (--vectors encode)"
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_RESERVED = ("encode",)
_sources: dict[str, OpenSource] = {}


def register_vector_source(name: str, open_source: OpenSource) -> None:
    """Add a source of candidate vectors, which `open_vectors` and `--vectors` then know as `NAME:REST`.

    Args:
        name: a letter, then letters, digits, `_`, `-` or `.`.
        open_source: called as `open_source(rest, docids=docids, dimension=d)`, where `rest` is the text after the colon
            and `docids` has the docid at each position of the index. It returns a function from positions [m] to
            vectors [m, d].

    Raises:
        TourError: if the name is not allowed or already registered, or `open_source` is not callable.

    Example:
        def open_array(path, *, docids, dimension):
            array = np.load(path, mmap_mode="r")  # [documents, d], in the order of the index
            return lambda positions: array[positions]

        register_vector_source("array", open_array)
        TourSearcher(searcher, reranker, texts, vectors="array:vectors.npy")
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        raise TourError(
            f"a vector source cannot have the name {name!r}; use a letter, then letters, digits, _, - or ., "
            f"and not {' or '.join(_RESERVED)}."
        )
    if name in _sources:
        raise TourError(f"the vector source {name!r} is already registered; choose another name.")
    if not callable(open_source):
        raise TourError(f"the vector source {name!r} needs a function that opens it, not {open_source!r}.")
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
        return _from_store(store)
    if isinstance(spec, str) and ":" in spec and not Path(spec).is_dir():
        name, _, rest = spec.partition(":")
        if _NAME.fullmatch(name):
            return _RegisteredVectors(name, rest, docids=docids, dimension=store.dimension)
    if isinstance(spec, str | Path):
        return EncodedCorpus.open(Path(spec), docids=docids, dimension=store.dimension)
    if callable(spec):
        return spec
    raise TourError(f"vectors cannot be read from {spec!r}; {_HINT}.")


def _from_store(store: Store) -> VectorLookup:
    if not isinstance(store, FaissIndex):
        return store.fetch
    vectors = store.vectors
    if not vectors.readable:
        raise TourError(f"the index ({vectors.kind}) cannot give its vectors back; {_HINT}.")
    if not vectors.exact:
        log.warning(
            "the index (%s) gives back compressed vectors, so query updates are less exact; %s.", vectors.kind, _HINT
        )
    return vectors


class _RegisteredVectors:
    """The vectors of a registered source, with a check of everything that it returns."""

    def __init__(self, name: str, rest: str, *, docids: Sequence[str], dimension: int) -> None:
        if name not in _sources:
            known = f"registered: {', '.join(sorted(_sources))}" if _sources else "none is registered"
            raise TourError(
                f"unknown vector source {name!r} ({known}), and there is no folder {name}:{rest}; "
                "register the source first, or give another --vectors."
            )
        self._name, self._docids, self._dimension = name, docids, dimension
        self._lookup = _sources[name](rest, docids=docids, dimension=dimension)
        if not callable(self._lookup):
            raise TourError(
                f"the vector source {name!r} must return a function from positions to vectors, "
                f"not {type(self._lookup).__name__}."
            )

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the documents at these positions."""
        returned = self._lookup(ids)
        try:
            vectors = np.asarray(returned, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise TourError(f"the vector source {self._name!r} must return an array of numbers ({error}).") from error
        if vectors.shape != (len(ids), self._dimension):
            raise TourError(
                f"the vector source {self._name!r} returned an array of shape {list(vectors.shape)} for {len(ids)} "
                f"positions; it must return {[len(ids), self._dimension]}."
            )
        if not (finite := np.isfinite(vectors).all(axis=1)).all():
            docid = self._docids[int(ids[int(finite.argmin())])]
            raise TourError(
                f"the vector source {self._name!r} returned a vector with NaN or infinity for document {docid!r}."
            )
        return vectors
