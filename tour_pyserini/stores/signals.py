"""Further first-stage signals: what finds candidates beside the vectors of an index."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.fusion import SignalHits
from tour_pyserini.data.texts import is_lucene_index, open_lucene
from tour_pyserini.errors import TourError
from tour_pyserini.stores.docids import difference
from tour_pyserini.stores.index_folder import BM25_FOLDER, has_bm25
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.support.pyserini import may_be_prebuilt

Signal = Callable[[Sequence[str], int], tuple[Sequence[Sequence[str]], Sequence[Any]]]
"""Finds documents for queries: for texts of queries and a number k, at most k docids of each query and their scores,
best first. Scores have any unit; higher is better. A signal may have the attribute `absent`: its score of documents
that it does not find where it finds fewer than k; without it, they count as the last one that it found."""

HITS = 1000
"""Documents that a signal is asked for. Their number does not depend on the hits of a run, so neither do scores."""


def check_signal(spec: str) -> None:
    """Refuse a signal that does not exist, without opening it and without importing Pyserini."""
    path = Path(spec)
    if store_address(spec):
        return  # it is asked for the collection when it is opened
    if path.exists():
        if not has_bm25(path) and not is_lucene_index(path):
            raise TourError(
                f"{path} has neither a BM25 index nor a Lucene index; build the first with "
                "python -m tour_pyserini.index --bm25."
            )
    elif path.is_absolute() or not may_be_prebuilt(spec):
        raise TourError(f"--sparse {spec}: there is no such folder and no prebuilt index with this name.")


def open_signal(spec: Any) -> Signal:
    """Open a signal.

    Args:
        spec: an index folder, or the address of a collection, with BM25 (`python -m tour_pyserini.index --bm25`); the
            folder of a Lucene index, or the name of a prebuilt one, which Pyserini searches with its BM25; or a
            function `(queries, k) -> docids, scores`, which is used as it is.

    Raises:
        TourError: if it cannot be opened.
    """
    if callable(spec):
        return spec
    check_signal(os.fspath(spec))
    if address := store_address(spec):
        from tour_pyserini.stores.vector_collection import CollectionWords, open_collection

        return LuceneSignal(CollectionWords(open_collection(address)))
    if not has_bm25(Path(spec)):
        return LuceneSignal(open_lucene(os.fspath(spec)))
    from tour_pyserini.stores.bm25 import Bm25Index

    return Bm25Index.open(Path(spec))


def signal_files(spec: Any) -> str | None:
    """What identifies a signal in the record of a run: a folder or a prebuilt name; None for a function."""
    if not isinstance(spec, str | os.PathLike):
        return None
    return str(Path(spec) / BM25_FOLDER) if has_bm25(Path(spec)) else os.fspath(spec)


class QuerySignal:
    """A function of one query as a signal.

    Example:
        def find(query, k):
            hits = my_search(query, k)
            return [hit.name for hit in hits], [hit.score for hit in hits]

        searcher = TourSearcher(faiss_searcher, "default", "corpus.jsonl", signals=[QuerySignal(find)])
    """

    def __init__(self, function: Callable[[str, int], tuple[Sequence[str], Any]]) -> None:
        """Ask the function for at most k docids of a query and their scores."""
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self._function = function

    def __call__(self, queries: Sequence[str], k: int) -> tuple[list[Sequence[str]], list[Any]]:
        """What the function finds for each query."""
        found = [self._function(query, k) for query in queries]
        return [docids for docids, _ in found], [scores for _, scores in found]


class LuceneSignal:
    """Finds documents by the words of a query, with Lucene or with the BM25 of a vector database; a signal."""

    absent = 0.0

    def __init__(self, searcher: Any) -> None:
        """Search with a LuceneSearcher, or anything with its `search`."""
        self._searcher = searcher

    def __call__(self, queries: Sequence[str], k: int) -> tuple[list[list[str]], list[list[float]]]:
        """At most k docids of each query and their scores, best first."""
        found = [self._searcher.search(query, k=k) for query in queries]
        return [[hit.docid for hit in hits] for hits in found], [[float(hit.score) for hit in hits] for hits in found]


def check_documents(signal: Signal, positions: Mapping[str, int]) -> None:
    """Refuse a signal that tells its `docids`, if they are not those of the index; their order does not matter.

    Args:
        signal: the signal.
        positions: the position in the index of each docid.
    """
    own = getattr(signal, "docids", None)
    extra, missing = (None, None) if own is None else difference(own, positions)
    if extra is not None or missing is not None:
        what = f"has the document {extra!r}, which the index does not have"
        if extra is None:
            what = f"lacks the document {missing!r}, which the index has"
        raise TourError(f"{_name(signal)} {what}; both must be built from the same corpus.")


def found_by(signal: Signal, queries: Sequence[str], k: int, positions: Mapping[str, int]) -> SignalHits:
    """What a signal finds, [n, k], with everything checked that it returns.

    Args:
        signal: the signal.
        queries: [n] texts.
        k: most documents of a query.
        positions: the position in the index of each docid.

    Raises:
        TourError: if it returns something else than docids of the index with finite scores.
    """
    docids, scores = signal(queries, k)
    ids = np.full((len(queries), k), -1, dtype=np.int64)
    values = np.full(ids.shape, -np.inf)
    for row, (_, names, numbers) in enumerate(zip(queries, docids, scores, strict=True)):
        if not len(set(names)) == len(names) == len(numbers) <= k:
            raise TourError(
                f"{_name(signal)} returned {len(names)} docids and {len(numbers)} scores for the query "
                f"{queries[row][:80]!r}; it must return as many of each, at most {k}, and no docid twice."
            )
        try:
            found = [positions[name] for name in names]
        except KeyError as error:
            raise TourError(
                f"{_name(signal)} found the document {error.args[0]!r}, which the index does not have; "
                "both must be built from the same corpus."
            ) from None
        numbers = np.asarray(numbers, dtype=np.float64)
        if not np.isfinite(numbers).all():
            raise TourError(f"{_name(signal)} returned a score that is not a number for {queries[row][:80]!r}.")
        order = np.argsort(-numbers, kind="stable")
        ids[row, : len(found)] = np.array(found, dtype=np.int64)[order]
        values[row, : len(found)] = numbers[order]
    return SignalHits(ids, values, getattr(signal, "absent", None))


def _name(signal: Signal) -> str:
    return f"the signal {getattr(signal, '__name__', type(signal).__name__)}"
