"""A BM25 index beside the vectors of an index: it finds passages by their words. bm25s computes it, without Java."""

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.bm25_words import ENGLISH, Words, check_language
from tour_pyserini.stores.docids import read_docids
from tour_pyserini.stores.index_files import check_checksums
from tour_pyserini.support.files import sha256
from tour_pyserini.support.optional import import_optional

FOLDER = "bm25"
"""The part of an index folder that holds the BM25 index."""
_RECORD = "tour-bm25.json"
_SETTINGS = {"k1": 0.9, "b": 0.4, "method": "lucene"}
"""Pyserini's k1 and b, and Lucene's formula."""


def write_bm25(passages: Iterable[str], folder: Path, *, language: str = ENGLISH) -> None:
    """Write the BM25 index of passages, in the order of the vectors, into a new folder.

    Args:
        passages: their texts.
        folder: where the files go.
        language: the code of their language (`stores/bm25_words.py`).

    Raises:
        TourError: if no passage has a word.
    """
    bm25s = _bm25s()
    words = Words(language)
    # Words get their numbers in the order in which they are met: the same corpus gives the same files.
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words(passage)] for passage in passages]
    if not vocabulary:
        raise TourError("BM25 finds passages by their words and no passage has any; leave out --bm25.")
    model = bm25s.BM25(k1=_SETTINGS["k1"], b=_SETTINGS["b"], method=_SETTINGS["method"])
    model.index((ids, vocabulary), create_empty_token=False, show_progress=False)
    model.save(str(folder), show_progress=False)
    checksums = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    record = {"settings": {**_SETTINGS, "language": language}, "documents": len(ids), "sha256": checksums}
    (folder / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def check_bm25() -> None:
    """Refuse to go on where the packages of the extra `bm25` are missing: before a corpus is encoded, not after."""
    for name in ("bm25s", "Stemmer", "regex"):
        import_optional(name, extra="bm25")


def has_bm25(index: Path) -> bool:
    """Whether an index folder holds a BM25 index."""
    return (index / FOLDER / _RECORD).is_file()


class Bm25Index:
    """Finds documents by BM25; a signal, see `stores/signals.py`.

    Attributes:
        docids: the docid of each document.
        absent: the score of a document that shares no word with the query.

    Example:
        docids, scores = Bm25Index.open(Path("indexes/scifact"))(["do statins prevent stroke"], 10)
    """

    absent = 0.0

    def __init__(self, model: Any, docids: Sequence[str], language: str) -> None:
        """Search a bm25s model of documents in a language that have these docids."""
        self._model, self.docids, self._language = model, docids, language

    @classmethod
    def open(cls, index: Path) -> Self:
        """Open the BM25 index in an index folder.

        Raises:
            TourError: if there is none, or it does not fit the folder's documents.
        """
        if not has_bm25(index):
            raise TourError(f"{index} has no BM25 index; build it with python -m tour_pyserini.index --bm25.")
        bm25s = _bm25s()
        folder = index / FOLDER
        check_checksums(folder, _RECORD, sorted(path.name for path in folder.iterdir()))
        try:
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            model = bm25s.BM25.load(str(folder), mmap=True, show_progress=False)
            _check(model)
        except Exception as error:  # bm25s and NumPy raise errors of many types for damaged files
            reason = first_line(error)
            raise TourError(f"{folder} cannot be read as a BM25 index ({reason:.200}); build it again.") from error
        docids = read_docids(index / "docid")
        settings = record.get("settings") if isinstance(record, dict) else None
        language = settings.get("language") if isinstance(settings, dict) else None
        if not isinstance(language, str) or settings != {**_SETTINGS, "language": language}:
            raise TourError(f"{folder} was made by another version, with other settings; build it again.")
        if not record.get("documents") == model.scores["num_docs"] == len(docids):
            raise TourError(f"{folder} is damaged: it has not one document per line of `docid`; build it again.")
        check_language(language)
        return cls(model, docids, language)

    def __call__(self, queries: Sequence[str], k: int) -> tuple[list[list[str]], list[Floats]]:
        """At most k docids of each query that share a word with it, best first, and their scores."""
        words = Words(self._language)
        found = [self._best(words(query), k) for query in queries]
        return [[self.docids[i] for i in ids.tolist()] for ids, _ in found], [scores for _, scores in found]

    def _best(self, query: list[str], k: int) -> tuple[np.ndarray, Floats]:
        known = [word for word in query if word in self._model.vocab_dict]
        if not known:
            return np.empty(0, dtype=np.int64), np.empty(0)
        scores = self._model.get_scores(known)
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


def _check(model: Any) -> None:
    """Check what bm25s takes on trust: where each word's scores begin, whose they are, and that they are numbers.

    Raises:
        ValueError: if they do not fit together.
    """
    np.dtype(model.dtype), np.dtype(model.int_dtype)
    parts = model.scores
    starts, ids, scores = parts["indptr"], parts["indices"], parts["data"]
    words, documents = len(starts) - 1, parts["num_docs"]
    if words < 1 or starts[0] != 0 or starts[-1] != len(ids) or len(ids) != len(scores) or (np.diff(starts) < 0).any():
        raise ValueError("its parts have different lengths")
    if len(ids) and not 0 <= ids.min() <= ids.max() < documents:
        raise ValueError("it has numbers of documents that do not exist")
    if not np.isfinite(scores).all():
        raise ValueError("it has scores that are not numbers")
    if any(not isinstance(number, int) or not 0 <= number < words for number in model.vocab_dict.values()):
        raise ValueError("it has words that do not exist")
