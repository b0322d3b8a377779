"""What is searched: an index folder, vectors in memory, Pyserini's searchers; as the index or as a further signal."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.encoder import encode_queries, text_of
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_index import set_search_effort
from tour_pyserini.stores.index_folder import read_index_files
from tour_pyserini.stores.signals import LuceneSignal, Signal, open_signal
from tour_pyserini.stores.store import MatrixIndex, Store, as_store
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.support.pyserini import ensure_java, may_be_prebuilt, open_prebuilt


@dataclass
class SearchedIndex:
    """An index with the names of its documents and the encoder of its queries, as `TourSearcher` needs them.

    Attributes:
        index: a FAISS index or another store.
        docids: the docid at each position of the index.
        query_encoder: anything with `encode(query)` that gives [d].
    """

    index: Any
    docids: Sequence[str]
    query_encoder: Any = None

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""
        return as_store(self.index).dimension

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return as_store(self.index).size


def check_index(index: str | os.PathLike[str]) -> None:
    """Refuse an index that does not exist, without importing FAISS or Pyserini.

    Args:
        index: a folder with `index` and `docid`, the address of a collection, or a name from Pyserini's list of
            prebuilt indexes.
    """
    folder = Path(index)
    if store_address(index):
        return  # it is asked for the collection when it is opened
    if not folder.exists():
        if isinstance(index, os.PathLike) or not may_be_prebuilt(str(index)):
            raise _no_index(str(index))
        return
    for name in ("index", "docid"):
        if not (folder / name).is_file():
            raise TourError(
                f"{folder} is not a FAISS index of Pyserini's: it has no file `{name}`; "
                "build one with python -m tour_pyserini.index."
            )


def open_index(
    folder: str | os.PathLike[str], encoder: Any = None, *, ef_search: int | None = None, nprobe: int | None = None
) -> SearchedIndex:
    """Read an index folder: `index` is a FAISS index, `docid` has one docid per line. Pyserini is not imported.

    Args:
        folder: the index; or the address of a collection in a vector database.
        encoder: the query encoder.
        ef_search: efSearch of an HNSW index.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.
    """
    check_index(folder)
    if address := store_address(folder):
        if ef_search is not None:
            raise TourError(f"--ef-search is for FAISS indexes; write ef={ef_search} into the address {address}.")
        from tour_pyserini.stores.vector_collection import open_collection

        store = open_collection(address)
        return SearchedIndex(store, store.docids, encoder)
    index, docids = read_index_files(Path(folder), PASSAGE_INDEX)
    set_search_effort(index, str(folder), ef_search=ef_search, nprobe=nprobe)
    return SearchedIndex(index, docids, encoder)


def open_searcher(
    index: str | os.PathLike[str], encoder: Any, *, ef_search: int | None = None, nprobe: int | None = None
) -> Any:
    """Pyserini's FaissSearcher on an index folder, or on a prebuilt index that Pyserini downloads.

    Args:
        index: a folder with `index` and `docid`, or a name from Pyserini's list.
        encoder: a Pyserini query encoder.
        ef_search: efSearch of an HNSW index.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.
    """
    check_index(index)
    ensure_java()
    folder = Path(index)
    searcher = _from_folder(folder, encoder) if folder.exists() else _prebuilt(str(index), encoder)
    set_search_effort(searcher.index, str(index), ef_search=ef_search, nprobe=nprobe)
    return searcher


def _from_folder(folder: Path, encoder: Any) -> Any:
    from pyserini.search.faiss import FaissSearcher

    read_index_files(folder, PASSAGE_INDEX)  # Pyserini reads the files without a check
    return FaissSearcher(str(folder), encoder)


def _prebuilt(name: str, encoder: Any) -> Any:
    from pyserini.search.faiss import FaissSearcher

    searcher = open_prebuilt(name, lambda: FaissSearcher.from_prebuilt_index(name, encoder))
    if searcher is None:
        raise _no_index(name)
    return searcher


def _no_index(name: str) -> TourError:
    return TourError(
        f"index not found: there is no folder {name!r} and no prebuilt index with this name; "
        "build one with python -m tour_pyserini.index."
    )


def in_memory_index(
    vectors: Any, texts: Any, encode: Any, *, docids: Iterable[str] | None = None
) -> tuple[SearchedIndex, Mapping[str, str]]:
    """An index of vectors in memory, and its passages by docid; the arguments of `TourSearcher.from_vectors`."""
    store = as_store(vectors) if isinstance(vectors, Store) or _is_faiss(vectors) else MatrixIndex(vectors)
    names, passages = _named_texts(texts, None if docids is None else list(docids), store.size)
    return SearchedIndex(store, names, _query_encoder(encode, store.dimension)), passages


class _QueryFunction:
    """A function from a query to its vector, or from a list of queries to their vectors, as a query encoder.

    Which of the two it is, the first query shows: a function of lists reads a text as a list of its characters.
    """

    def __init__(self, function: Callable[[Any], Any], dimension: int) -> None:
        """Wrap a function whose vectors must have `dimension` numbers."""
        self._function, self._dimension = function, dimension
        self._takes_lists: bool | None = None

    def encode(self, query: str | None = None, **fields: Any) -> Floats:
        """The vector [d] of a query: a text, or the fields of one of Pyserini's topics."""
        text = text_of(fields, "query") if query is None else query
        if self._takes_lists is None:
            return self._first(text)
        return _as_vectors(self._function([text] if self._takes_lists else text))

    def _first(self, text: str) -> Floats:
        """The vector of the first query; remembers what the function takes."""
        failure: Exception | None = None
        vector: Floats = np.empty(0)
        try:
            vector = _as_vectors(self._function(text))
            if vector.shape in ((self._dimension,), (1, self._dimension)):
                self._takes_lists = False
                return vector
        except Exception as error:  # a function of lists may fail in any way
            failure = error
        try:
            vectors = _as_vectors(self._function([text]))
            if vectors.shape == (1, self._dimension):
                self._takes_lists = True
                return vectors
        except Exception:
            if failure is not None:
                raise failure from None
        else:
            vector = vectors if failure is not None or vectors.ndim == 2 else vector
        raise TourError(
            f"encode gives an array of shape {list(vector.shape)} for a query; "
            f"the vectors of the passages have {self._dimension} dimensions."
        )


def _query_encoder(encode: Any, dimension: int) -> Any:
    if isinstance(encode, type):
        raise TourError(f"encode is the class {encode.__name__}; give an object: {encode.__name__}(...).")
    if hasattr(encode, "encode_batch"):
        return encode
    # A SentenceTransformer's `encode_query` adds the prompt that its model wants before queries.
    function = getattr(encode, "encode_query", None) or getattr(encode, "encode", None) or encode
    if not callable(function) or isinstance(encode, str):  # a str has a method `encode` too
        raise TourError(
            "encode must be a function from a query to its vector, or an object with encode, "
            f"not {type(encode).__name__}."
        )
    return _QueryFunction(function, dimension)


def _as_vectors(values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TourError(f"encode must return an array of numbers, not {type(values).__name__} ({error}).") from error


def _is_faiss(vectors: Any) -> bool:
    """Whether it is a FAISS index, by what one has; FAISS is not imported for it."""
    return all(hasattr(vectors, name) for name in ("ntotal", "d", "metric_type", "search"))


def _named_texts(texts: Any, docids: list[Any] | None, size: int) -> tuple[list[str], Mapping[str, str]]:
    """The docid of each vector, and the passages by docid."""
    if isinstance(texts, str | os.PathLike):
        texts = open_texts(texts)
    if docids is not None and len(docids) != size:
        raise TourError(f"there are {size} vectors and {len(docids)} docids; give one for each vector.")
    if isinstance(texts, Mapping):
        names = list(texts) if docids is None else docids
        if len(names) != size:
            raise TourError(f"there are {size} vectors and {len(names)} texts; give one text for each vector.")
        for name in names:
            if docids is not None and name not in texts:
                raise TourError(f"the docid {name!r} is not in the texts; give the text of each vector.")
        passages = texts if all(isinstance(name, str) for name in names) else {str(name): texts[name] for name in names}
    else:
        if not isinstance(texts, Iterable):
            raise TourError(f"texts must be a list or a mapping from docid to text, not {type(texts).__name__}.")
        given = list(texts)
        if len(given) != size:
            raise TourError(f"there are {size} vectors and {len(given)} texts; give one text for each vector.")
        for position, text in enumerate(given):
            if not isinstance(text, str):
                raise TourError(f"the text at position {position} is {type(text).__name__}, not a string.")
        names = list(range(size)) if docids is None else docids
        passages = dict(zip(map(str, names), given, strict=True))
    ids = [str(name) for name in names]
    if len(set(ids)) != size:
        twice = Counter(ids).most_common(1)[0][0]
        raise TourError(f"the docid {twice!r} is given twice; docids must be unique.")
    return ids, passages


class DenseSignal:
    """Finds documents with another index of the same documents, in any order, and its own query encoder; a signal.

    Attributes:
        docids: the docid at each position of that index.
    """

    def __init__(self, searcher: Any, *, name: str | None = None) -> None:
        """Search with a FaissSearcher of Pyserini's, or a `SearchedIndex`; messages call it `name`."""
        if getattr(searcher, "query_encoder", None) is None:
            raise TourError("a second index finds documents for texts: open it with the query encoder that built it.")
        self.docids: Sequence[str] = searcher.docids
        self.__name__ = name or type(searcher).__name__
        self._store, self._encoder = as_store(searcher.index), searcher.query_encoder

    def __call__(self, queries: Sequence[str], k: int) -> tuple[list[list[str]], list[Floats]]:
        """The k docids of each query that are most similar to it, best first, and their similarities."""
        vectors = encode_queries(self._encoder, list(queries), [query[:80] for query in queries], self._store.dimension)
        hits = self._store.search(vectors, k)
        found = [ids >= 0 for ids in hits.ids]
        docids = [[self.docids[id_] for id_ in ids[of].tolist()] for ids, of in zip(hits.ids, found, strict=True)]
        return docids, [row[of] for row, of in zip(hits.similarities, found, strict=True)]


def as_signal(spec: Any) -> Signal:
    """A signal from a searcher of Pyserini's, or from anything that `open_signal` takes.

    A searcher with an index and docids, such as FaissSearcher, finds documents with its own encoder; one with `search`
    alone, such as LuceneSearcher, as it does by itself.
    """
    if hasattr(spec, "index") and hasattr(spec, "docids"):
        return DenseSignal(spec)
    if hasattr(spec, "search") and not callable(spec):
        return LuceneSignal(spec.search)
    return open_signal(spec)


def listed(signals: Any) -> list[Any]:
    """The signals of an argument `signals`.

    Raises:
        TourError: if it is one signal and not a list.
    """
    if isinstance(signals, str) or callable(signals) or not isinstance(signals, Iterable):
        raise TourError("signals is a list of signals; put the one you have in brackets.")
    return list(signals)


def dense_part(searcher: Any) -> Any:
    """The searcher of vectors in a HybridSearcher of Pyserini's; any other searcher as it is."""
    return searcher.dense_searcher if _is_hybrid(searcher) else searcher


def sparse_parts(searcher: Any) -> list[Any]:
    """The other searcher in a HybridSearcher of Pyserini's, in a list; none for any other searcher."""
    return [searcher.sparse_searcher] if _is_hybrid(searcher) else []


def _is_hybrid(searcher: Any) -> bool:
    return hasattr(searcher, "dense_searcher") and hasattr(searcher, "sparse_searcher")
