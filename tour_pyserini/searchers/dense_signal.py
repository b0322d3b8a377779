"""Searchers as first-stage signals: a second index with an encoder of its own, and the parts of a HybridSearcher."""

from collections.abc import Iterable, Sequence
from typing import Any

from tour_pyserini.core.arrays import Floats
from tour_pyserini.encoders.encoder import encode_queries
from tour_pyserini.errors import TourError
from tour_pyserini.stores.signals import LuceneSignal, Signal, open_signal
from tour_pyserini.stores.store import as_store


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
