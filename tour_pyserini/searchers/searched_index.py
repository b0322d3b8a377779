"""What is searched: an index folder, vectors in memory, Pyserini's searchers; as the index or as a further signal."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.texts import is_lucene_index, open_texts
from tour_pyserini.encoders.encoder import encode_queries, text_of
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_index import set_search_effort
from tour_pyserini.stores.index_folder import read_index_files
from tour_pyserini.stores.lucene_vectors import LuceneVectors
from tour_pyserini.stores.signals import Signal, open_signal
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.support.pyserini import ensure_java, may_know, open_prebuilt


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
        index: a folder with `index` and `docid`, or of a Lucene index; the address of a collection; or a name from
            Pyserini's list of prebuilt indexes.
    """
    folder = Path(index)
    if store_address(index):
        return  # it is asked for the collection when it is opened
    if not folder.exists():
        if isinstance(index, os.PathLike) or not may_know(str(index)):
            raise _no_index(str(index))
        return
    if is_lucene_index(folder):
        return
    for name in ("index", "docid"):
        if not (folder / name).is_file():
            raise TourError(
                f"{folder} is neither a Lucene index nor a FAISS index of Pyserini's: it has no file `{name}`; "
                "build one with python -m tour_pyserini.index."
            )


def open_index(
    index: str | os.PathLike[str], encoder: Any = None, *, ef_search: int | None = None, nprobe: int | None = None
) -> SearchedIndex:
    """Open an index; Pyserini is imported only for a prebuilt one, which it downloads.

    Args:
        index: a folder, where `index` is a FAISS index and `docid` has one docid per line, or of a Lucene index of
            vectors; the address of a collection in a vector database; or a name from Pyserini's list of prebuilt
            indexes.
        encoder: the query encoder.
        ef_search: efSearch of an HNSW index.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.
    """
    check_index(index)
    if address := store_address(index):
        for flag, name, value in (("--ef-search", "ef", ef_search), ("--nprobe", "nprobe", nprobe)):
            if value is not None:
                raise TourError(f"{flag} is for FAISS indexes; write {name}={value} into the address {address}.")
        from tour_pyserini.stores.vector_collection import CollectionStore

        store = CollectionStore.open(address)
        return SearchedIndex(store, store.docids, encoder)
    folder, name = Path(index), str(index)
    found = folder if folder.exists() else _prebuilt(name)
    if isinstance(found, Path) and is_lucene_index(found):
        if nprobe is not None:
            raise TourError(f"--nprobe is for inverted files and {name} is a Lucene index; leave it out.")
        lucene = LuceneVectors.open(found, ef_search=ef_search)
        return SearchedIndex(lucene, lucene.docids, encoder)
    faiss_index, docids = read_index_files(found) if isinstance(found, Path) else found
    set_search_effort(faiss_index, name, ef_search=ef_search, nprobe=nprobe)
    return SearchedIndex(faiss_index, docids, encoder)


def _prebuilt(name: str) -> Path | tuple[Any, Sequence[str]]:
    """A prebuilt index: the folder of one of Lucene's, or the FAISS index and its docids."""
    ensure_java()
    from pyserini import prebuilt_index_info

    if any(name in getattr(prebuilt_index_info, f"LUCENE_{kind}_INDEX_INFO", ()) for kind in ("HNSW", "FLAT")):
        from pyserini.util import download_prebuilt_index

        return Path(open_prebuilt(name, lambda: download_prebuilt_index(name, verbose=False)))
    from pyserini.search.faiss import FaissSearcher

    searcher = open_prebuilt(name, lambda: FaissSearcher.from_prebuilt_index(name, None))
    if searcher is None:
        raise _no_index(name)
    return searcher.index, searcher.docids


def _no_index(name: str) -> TourError:
    return TourError(
        f"index not found: there is no folder {name!r} and no prebuilt index with this name; "
        "build one with python -m tour_pyserini.index."
    )


def in_memory_index(
    vectors: Any, texts: Any, encode: Any, *, docids: Iterable[str] | None = None
) -> tuple[SearchedIndex, Mapping[str, str]]:
    """An index of vectors in memory, and its passages by docid; the arguments of `TourSearcher.from_vectors`."""
    store = as_store(vectors)
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
            self._takes_lists = not self._takes(text)
        return np.asarray(self._function([text] if self._takes_lists else text), dtype=np.float32)

    def _takes(self, text: str) -> bool:
        try:
            return np.asarray(self._function(text), dtype=np.float32).size == self._dimension
        except Exception:  # a function of lists may fail in any way for a text
            return False


def _query_encoder(encode: Any, dimension: int) -> Any:
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


def _named_texts(texts: Any, docids: list[Any] | None, size: int) -> tuple[list[str], Mapping[str, str]]:
    """The docid of each vector, and the passages by docid."""
    if isinstance(texts, str | os.PathLike):
        texts = open_texts(texts)
    elif not isinstance(texts, Mapping):
        given = list(texts)
        docids = list(range(len(given))) if docids is None else docids
        if len(given) != len(docids):
            raise TourError(f"there are {len(given)} texts and {len(docids)} docids; give one docid for each text.")
        texts = dict(zip(docids, given, strict=True))
    names = list(texts) if docids is None else docids
    if len(names) != size:
        raise TourError(f"there are {size} vectors and {len(names)} texts; give one text for each vector.")
    for name, count in Counter(map(str, names)).items():
        if count > 1:
            raise TourError(f"the docid {name!r} is given twice; docids must be unique.")
    for name in names:
        if name not in texts:
            raise TourError(f"the docid {name!r} is not in the texts; give the text of each vector.")
    if not all(isinstance(name, str) for name in names):
        texts = {str(name): texts[name] for name in names}
    return [str(name) for name in names], texts


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


def as_signals(specs: Iterable[Any]) -> list[Signal]:
    """Signals from searchers of Pyserini's, or from anything that `open_signal` takes.

    A searcher with an index and docids, such as FaissSearcher, finds documents with its own encoder; one with `search`
    alone, such as LuceneSearcher, as it does by itself.

    Raises:
        TourError: if it is one signal and not a list.
    """
    if isinstance(specs, str) or callable(specs) or not isinstance(specs, Iterable):
        raise TourError("signals is a list of signals; put the one you have in brackets.")
    has_vectors = [hasattr(spec, "index") and hasattr(spec, "docids") for spec in specs]
    return [DenseSignal(spec) if dense else open_signal(spec) for spec, dense in zip(specs, has_vectors, strict=True)]


def hybrid_parts(searcher: Any) -> tuple[Any, list[Any]]:
    """What searches vectors, and signals: the two searchers of a HybridSearcher of Pyserini's; else one, and none.

    A searcher of vectors in Lucene (LuceneHnswDenseSearcher, LuceneFlatDenseSearcher) becomes a `SearchedIndex`.
    """
    signals = []
    if hasattr(searcher, "dense_searcher") and hasattr(searcher, "sparse_searcher"):
        searcher, signals = searcher.dense_searcher, [searcher.sparse_searcher]
    if type(searcher).__name__ in ("LuceneHnswDenseSearcher", "LuceneFlatDenseSearcher"):
        store, encoder = LuceneVectors.of_searcher(searcher), searcher.searcher.encoder
        searcher = SearchedIndex(store, store.docids, _query_encoder(encoder, store.dimension) if encoder else None)
    return searcher, signals
