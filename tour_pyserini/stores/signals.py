"""Further first-stage signals: what finds candidates beside the vectors of an index, by words or as a user wants.

bm25s computes the BM25 index in an index folder, without Java.
"""

import json
import logging
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import regex

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.core.fusion import SignalHits
from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import is_lucene_index, open_lucene
from tour_pyserini.errors import TourError
from tour_pyserini.stores.filters import Filter, Within, first_passing, positions_of
from tour_pyserini.stores.index_folder import (
    BM25_FOLDER,
    BM25_RECORD,
    Docids,
    check_checksums,
    has_bm25,
)
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.support.files import sha256
from tour_pyserini.support.packages import import_optional
from tour_pyserini.support.pyserini import may_know

log = logging.getLogger(__name__)

Signal = Callable[[Sequence[str], int], tuple[Sequence[Sequence[str]], Sequence[Any]]]
"""Finds documents for queries: for texts of queries and a number k, at most k docids of each query and their scores,
best first. Scores have any unit; higher is better. A signal may have the attribute `absent`: its score of documents
that it does not find where it finds fewer than k; without it, they count as the last one that it found. One with the
attribute `by_id` that is true gets the queries' ids in place of their texts."""

HITS = 1000
"""Documents that a signal is asked for. Their number does not depend on the hits of a run, so neither do scores."""
ENGLISH = "en"

_IMPACT = "impact:"  # the beginning of a signal whose words have learnt weights
# Languages without a stemmer of Snowball's: every word counts as it is written.
_UNSTEMMED = ("bn", "ja", "ko", "sw", "te", "th", "uk", "vi", "yo", "zh", "none")
_BM25 = {"k1": 0.9, "b": 0.4, "method": "lucene"}  # Pyserini's k1 and b, and Lucene's formula
# The names of bm25s's lists of stop words; in other languages, every word counts.
_STOPWORDS = {
    **{"da": "DANISH", "de": "GERMAN", "en": "EN", "es": "SPANISH", "fr": "FRENCH", "it": "ITALIAN", "nl": "DUTCH"},
    **{"no": "NORWEGIAN", "pt": "PORTUGUESE", "ru": "RUSSIAN", "sv": "SWEDISH", "tr": "TURKISH"},
}
# Scripts that do not separate words by blanks, or (Hangul) separate phrases: pairs of neighbouring characters count.
_JOINED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
# Elsewhere letters, digits and their marks; a mark alone (NFKC makes one of an accent without a letter) begins no word.
_PIECE = regex.compile(
    rf"(?P<joined>[{_JOINED}]+)|[[\p{{L}}\p{{N}}_]--[{_JOINED}]][[\p{{L}}\p{{M}}\p{{N}}_]--[{_JOINED}]]+", regex.V1
)
_ASCII_PIECE = regex.compile(r"\w\w+")  # the same pieces of ASCII text, found faster


def check_signal(spec: str) -> None:
    """Refuse a signal that does not exist, without opening it and without importing Pyserini."""
    if store_address(spec):
        return  # it is asked for the collection when it is opened
    if spec.startswith(_IMPACT):
        spec = _impact_index(spec)[0]
    path = Path(spec)
    if path.exists():
        if not has_bm25(path) and not is_lucene_index(path):
            raise TourError(f"{path} has neither a BM25 index nor a Lucene index; build the first with index --bm25.")
    elif path.is_absolute() or not may_know(spec):
        raise TourError(f"--sparse {spec}: there is no such folder and no prebuilt index with this name.")


def open_signal(spec: Any) -> Signal:
    """Open a signal.

    Args:
        spec: an index folder, or the address of a collection, with BM25 (`python -m tour_pyserini.index --bm25`); the
            folder of a Lucene index, or the name of a prebuilt one, which Pyserini searches with its BM25; the same as
            `impact:INDEX?encoder=NAME` for learnt weights of words (SPLADE, uniCOIL) and their encoder of queries; an
            object with the method `search` of a LuceneSearcher; or a function `(queries, k) -> docids, scores`, which
            is used as it is.

    Raises:
        TourError: if it cannot be opened.
    """
    if callable(spec):
        return spec
    if hasattr(spec, "search"):
        return _LuceneSignal(spec.search)
    check_signal(os.fspath(spec))
    if address := store_address(spec):
        from tour_pyserini.stores.vector_collection import CollectionStore

        return _CollectionSignal(CollectionStore.open(address))
    if str(spec).startswith(_IMPACT):
        return _open_impact(str(spec))
    return _Bm25Index(Path(spec)) if has_bm25(Path(spec)) else _LuceneSignal(open_lucene(os.fspath(spec)).search)


def _impact_index(spec: str) -> tuple[str, str]:
    """Index and encoder of `impact:INDEX?encoder=NAME`."""
    index, _, encoder = spec.removeprefix(_IMPACT).partition("?encoder=")
    if not index or not encoder:
        raise TourError(f"--sparse {spec} does not say index and encoder: write {_IMPACT}INDEX?encoder=NAME.")
    return index, encoder


def _open_impact(spec: str) -> Signal:
    """Pyserini's LuceneImpactSearcher on a folder or a prebuilt index, with one of Pyserini's encoders of words."""
    index, encoder = _impact_index(spec)
    searcher = open_lucene(index, "LuceneImpactSearcher", encoder)
    if searcher.query_encoder is None:
        kinds = "unicoil, splade, slim; or a file of encoded queries, .jsonl"
        raise TourError(f"{_IMPACT}{index}: Pyserini does not recognise the encoder {encoder} by its name ({kinds}).")
    return _LuceneSignal(searcher.search)


def signal_files(spec: Any) -> str | None:
    """What identifies a signal in the record of a run: a folder or a prebuilt name; None for an object."""
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


class RunSignal:
    """What a TREC run holds for its topics; a signal that knows queries by their ids (`by_id`), not by their texts.

    Attributes:
        topics: the ids of its topics.
        documents: all docids of the run.
    """

    by_id = True

    def __init__(self, path: str) -> None:
        """Read a run."""
        self.__name__ = f"run {path}"
        self._found = read_rankings(path)
        self.topics = self._found.keys()
        self.documents = list(dict.fromkeys(hit.doc_id for hits in self._found.values() for hit in hits))

    def __call__(self, q_ids: Sequence[str], k: int) -> tuple[list[list[str]], list[list[float]]]:
        """At most k docids of each topic and their scores, best first."""
        if missing := [q_id for q_id in q_ids if q_id not in self._found]:
            log.warning("the %s has nothing for %d topics, such as %s", self.__name__, len(missing), missing[0])
        found = [self._found.get(q_id, [])[:k] for q_id in q_ids]
        return [[hit.doc_id for hit in hits] for hits in found], [[hit.score for hit in hits] for hits in found]


class _LuceneSignal:
    """Finds documents by the words of a query, with Lucene; a signal."""

    absent = 0.0

    def __init__(self, search: Callable[..., Sequence[Any]]) -> None:
        """Search with the method `search` of a LuceneSearcher, or with anything that is called as it."""
        self._search = search

    def __call__(self, queries: Sequence[str], k: int) -> tuple[list[list[str]], list[list[float]]]:
        """At most k docids of each query and their scores, best first."""
        found = [self._search(query, k=k) for query in queries]
        return [[hit.docid for hit in hits] for hits in found], [[float(hit.score) for hit in hits] for hits in found]


class _CollectionSignal(_LuceneSignal):
    """Finds documents with the BM25 of a collection in a vector database; a signal."""

    def __init__(self, store: Any, wanted: Filter | None = None) -> None:
        if not store.settings["store"]["bm25"]:
            raise TourError(f"{store.address} has no BM25; load it with python -m tour_pyserini.index --bm25.")
        super().__init__(partial(store.words, wanted=wanted))
        self._store = store

    def within(self, documents: Within) -> Signal:
        """The signal of the documents that pass, if the filter is one of the same collection; else the signal."""
        same = str(getattr(documents, "address", "")) == str(self._store.address)
        return _CollectionSignal(self._store, getattr(documents, "wanted", None)) if same else self


class Words:
    """Cuts texts of a language into the words that count: in lower case, without stop words, stemmed.

    A word has at least two characters. In scripts that do not separate words, each two neighbouring characters are one.
    Texts are cut in the same way in every language: it decides about stemmer and stop words alone,
    but for the lower case of I in Turkish. bm25s's own tokenizer knows neither these scripts nor compatible forms.

    Args:
        language: the ISO 639-1 code of a language that Snowball stems, or one of `_UNSTEMMED`.

    Raises:
        TourError: if the language is not known, or the extra `bm25` is not installed.

    Example:
        >>> Words("en")("The cats, sitting in 北京动物园")
        ['cat', 'sit', '北京', '京动', '动物', '物园']
    """

    def __init__(self, language: str) -> None:
        self._turkish = language == "tr"
        lists = import_optional("bm25s.stopwords", extra="bm25")
        self._stopwords = frozenset(getattr(lists, f"STOPWORDS_{_STOPWORDS.get(language)}", ()))
        stemmers = import_optional("Stemmer", extra="bm25")
        try:
            # Snowball knows longer names too. A stemmer must not be shared by threads.
            code = language if len(language) == 2 else ""
            self._stem: Any = str if language in _UNSTEMMED else stemmers.Stemmer(code).stemWord
        except KeyError:
            known = f"the ISO 639-1 code of one that Snowball stems (en, de, fr, ...), or {', '.join(_UNSTEMMED)}"
            raise TourError(f"the language {language!r} is not known; give {known}.") from None

    def __call__(self, text: str) -> list[str]:
        """The words, in the order of the text."""
        return [self._stem(word) for word in self._pieces(text) if word not in self._stopwords]

    def _pieces(self, text: str) -> list[str]:
        """The parts of the text, in lower case, with one way to write accents, wide letters and ligatures."""
        plain = text.isascii()
        if not plain:
            # Python's lower case of the capital i with a dot is an i with a dot more.
            text = unicodedata.normalize("NFKC", text).replace("İ", "i")
        text = (text.replace("I", "ı") if self._turkish else text).lower()
        if plain:
            return _ASCII_PIECE.findall(text)
        return [word for piece in _PIECE.finditer(text) for word in _parts(piece)]


def _parts(piece: Any) -> list[str]:
    word = piece[0]
    return [word[i : i + 2] for i in range(max(len(word) - 1, 1))] if piece["joined"] else [word]


def write_bm25(passages: Iterable[str], folder: Path, *, language: str = ENGLISH) -> None:
    """Write the BM25 index of passages, in the order of the vectors, into a new folder.

    Args:
        passages: their texts.
        folder: where the files go.
        language: the code of their language.
    """
    words = Words(language)
    # Words get their numbers in the order in which they are met: the same corpus gives the same files.
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words(passage)] for passage in passages]
    model = _bm25s().BM25(**_BM25)
    model.index((ids, vocabulary), create_empty_token=False, show_progress=False)
    model.save(str(folder), show_progress=False)
    checksums = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    record = {"settings": {**_BM25, "language": language}, "documents": len(ids), "sha256": checksums}
    (folder / BM25_RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


class _Bm25Index:
    """Finds documents by the BM25 index in an index folder; a signal.

    Attributes:
        docids: the docid of each document.
        absent: the score of a document that shares no word with the query.

    Raises:
        TourError: if it is damaged.
    """

    absent = 0.0

    def __init__(self, index: Path) -> None:
        self.__name__, folder = f"BM25 of {index}", index / BM25_FOLDER
        check_checksums(folder, BM25_RECORD, sorted(path.name for path in folder.iterdir()))
        self._language: str = read_json_object(folder / BM25_RECORD)["settings"]["language"]
        self._model = _bm25s().BM25.load(str(folder), mmap=True, show_progress=False)
        self.docids: Sequence[str] = Docids.read(index / "docid")
        if self._model.scores["num_docs"] != len(self.docids):
            raise TourError(
                f"{folder} is of another index: it has not one document per line of `docid`; build it again."
            )

    def __call__(self, queries: Sequence[str], k: int) -> tuple[list[list[str]], list[Floats]]:
        """At most k docids of each query that share a word with it, best first, and their scores."""
        words = Words(self._language)
        found = [self._best(words(query), k) for query in queries]
        return [[self.docids[i] for i in ids.tolist()] for ids, _ in found], [scores for _, scores in found]

    def _best(self, query: list[str], k: int) -> tuple[np.ndarray, Floats]:
        known = [word for word in query if word in self._model.vocab_dict]
        scores = self._model.get_scores(known) if known else np.empty(0)
        ids = np.flatnonzero(scores > 0)
        if len(ids) > k:
            # The k-th score and above; documents of equal scores stand in the order of the index.
            ids = ids[scores[ids] >= np.partition(scores[ids], len(ids) - k)[len(ids) - k]]
        best = ids[np.argsort(-scores[ids], kind="stable")][:k]
        return best, scores[best].astype(np.float64)


def _bm25s() -> Any:
    """The package bm25s, without the messages for its own developers that it logs."""
    package = import_optional("bm25s", extra="bm25")
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return package


def check_documents(signal: Signal, positions: Mapping[str, int]) -> None:
    """Refuse a signal that tells its `docids`, if they are not those of the index; their order does not matter.

    Args:
        signal: the signal.
        positions: the position in the index of each docid.
    """
    own = getattr(signal, "docids", None)
    # Packed docids are compared in a thirtieth of the time.
    if own is None or (isinstance(own, Docids) and own == getattr(positions, "docids", None)):
        return
    for docid in own:
        if docid not in positions:
            raise TourError(f"{_name(signal)} has the document {docid!r}, which the index does not have.")
    mine = positions_of(own)
    for docid in positions:
        if docid not in mine:
            raise TourError(f"{_name(signal)} lacks the document {docid!r}, which the index has.")


def found_by(
    signal: Signal, queries: Sequence[str], k: int, positions: Mapping[str, int], within: Within | None = None
) -> SignalHits:
    """What a signal finds, [n, k], with everything checked that it returns.

    Args:
        signal: the signal.
        queries: [n] texts.
        k: most documents of a query.
        positions: the position in the index of each docid.
        within: the documents that may be found. A signal is asked for more and more documents until enough of them
            pass, unless it has a method `within` that gives the signal of these documents alone.

    Raises:
        TourError: if it returns something else than docids of the index with finite scores.
    """
    absent = getattr(signal, "absent", None)
    if within is None:
        return SignalHits(*_found(signal, queries, k, positions), absent)
    own = signal.within(within) if hasattr(signal, "within") else signal

    def find(rows: Ids, wanted: int) -> Hits:
        return _found(own, [queries[row] for row in rows], wanted, positions)

    return SignalHits(*first_passing(find, len(queries), k, within, len(positions)), absent)


def _found(signal: Signal, queries: Sequence[str], k: int, positions: Mapping[str, int]) -> Hits:
    ids = np.full((len(queries), k), -1, dtype=np.int64)
    values = np.full(ids.shape, -np.inf)
    for row, (query, docids, given) in enumerate(zip(queries, *signal(queries, k), strict=True)):
        scores, count = np.asarray(given, dtype=np.float64), len(docids)
        if not len(set(docids)) == count == len(scores) <= k or not np.isfinite(scores).all():
            must = f"it must return at most {k} docids, none twice, and a finite score of each"
            raise TourError(f"{_name(signal)} returned {count} docids, {len(scores)} scores for {query!r:.80}; {must}.")
        if unknown := [docid for docid in docids if docid not in positions]:
            raise TourError(f"{_name(signal)} found the document {unknown[0]!r}, which the index does not have.")
        order = np.argsort(-scores, kind="stable")
        ids[row, :count] = np.array([positions[docid] for docid in docids], dtype=np.int64)[order]
        values[row, :count] = scores[order]
    return Hits(ids, values)


def _name(signal: Signal) -> str:
    return f"the signal {getattr(signal, '__name__', type(signal).__name__)}"
