"""A BM25 index beside the vectors of an index, which finds passages by their words. bm25s computes it, without Java."""

import json
import logging
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.docids import read_docids
from tour_pyserini.stores.index_folder import BM25_FOLDER, BM25_RECORD, check_checksums, has_bm25
from tour_pyserini.support.files import sha256
from tour_pyserini.support.packages import import_optional

ENGLISH = "en"
NO_LANGUAGE = "none"
UNSTEMMED = ("bn", "ja", "ko", "sw", "te", "th", "uk", "vi", "yo", "zh", NO_LANGUAGE)
"""Languages without a stemmer of Snowball's: every word counts as it is written."""

_SETTINGS = {"k1": 0.9, "b": 0.4, "method": "lucene"}
"""Pyserini's k1 and b, and Lucene's formula."""
# The names of bm25s's lists of stop words; in other languages, every word counts.
_STOPWORDS = {
    **{"da": "DANISH", "de": "GERMAN", "en": "EN", "es": "SPANISH", "fr": "FRENCH", "it": "ITALIAN", "nl": "DUTCH"},
    **{"no": "NORWEGIAN", "pt": "PORTUGUESE", "ru": "RUSSIAN", "sv": "SWEDISH", "tr": "TURKISH"},
}
# Scripts that do not separate words by blanks, or (Hangul) separate phrases: pairs of neighbouring characters count.
_JOINED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
# Elsewhere letters, digits and their marks; a mark alone (NFKC makes one of an accent without a letter) begins no word.
_PIECE = rf"[{_JOINED}]+|[[\p{{L}}\p{{N}}_]--[{_JOINED}]][[\p{{L}}\p{{M}}\p{{N}}_]--[{_JOINED}]]+"
_ASCII_PIECE = re.compile(r"\w\w+")  # the same pieces of ASCII text, found faster


class Words:
    """Cuts texts of a language into the words that count: in lower case, without stop words, stemmed.

    A word has at least two characters. In scripts that do not separate words, each two neighbouring characters are one.
    Texts are cut in the same way in every language: it decides about stemmer and stop words alone,
    but for the lower case of I in Turkish. bm25s's own tokenizer knows neither these scripts nor compatible forms.

    Example:
        >>> Words("en")("The cats, sitting in 北京动物园")
        ['cat', 'sit', '北京', '京动', '动物', '物园']
    """

    def __init__(self, language: str) -> None:
        """Take an ISO 639-1 code of a language that Snowball stems, or one of `UNSTEMMED`."""
        check_language(language)
        regex = import_optional("regex", extra="bm25")
        self._turkish = language == "tr"
        self._piece = regex.compile(_PIECE, regex.V1)
        self._joined = regex.compile(f"[{_JOINED}]", regex.V1)
        # A stemmer must not be shared by threads.
        self._stem: Any = str if language in UNSTEMMED else _stemmers().Stemmer(language).stemWord
        lists = import_optional("bm25s.stopwords", extra="bm25")
        self._stopwords = frozenset(getattr(lists, f"STOPWORDS_{_STOPWORDS.get(language)}", ()))

    def __call__(self, text: str) -> list[str]:
        """The words, in the order of the text."""
        return [self._stem(word) for word in self._pieces(self._lower(text)) if word not in self._stopwords]

    def _lower(self, text: str) -> str:
        """The text in lower case, with one way to write accents, wide letters and ligatures."""
        if not text.isascii():
            # Python's lower case of the capital i with a dot is an i with a dot more.
            text = unicodedata.normalize("NFKC", text).replace("İ", "i")
        if self._turkish:
            text = text.replace("I", "ı")
        return text.lower()

    def _pieces(self, text: str) -> list[str]:
        if text.isascii():
            return _ASCII_PIECE.findall(text)
        return [word for piece in self._piece.findall(text) for word in self._parts(piece)]

    def _parts(self, piece: str) -> list[str]:
        if not self._joined.match(piece):
            return [piece]
        return [piece[i : i + 2] for i in range(max(len(piece) - 1, 1))]


def check_language(language: str) -> None:
    """Refuse a code that is not known.

    Raises:
        TourError: that says which are.
    """
    try:
        if language not in UNSTEMMED:
            _stemmers().Stemmer(language if len(language) == 2 else "")  # Snowball knows longer names too
    except KeyError:
        raise TourError(
            f"the language {language!r} is not known; give the ISO 639-1 code of one that Snowball stems "
            f"(en, de, fr, ...), or one of {', '.join(UNSTEMMED)}."
        ) from None


def check_bm25() -> None:
    """Refuse to go on where the packages of the extra `bm25` are missing: before a corpus is encoded, not after."""
    for name in ("bm25s", "Stemmer", "regex"):
        import_optional(name, extra="bm25")


def write_bm25(passages: Iterable[str], folder: Path, *, language: str = ENGLISH) -> None:
    """Write the BM25 index of passages, in the order of the vectors, into a new folder.

    Args:
        passages: their texts.
        folder: where the files go.
        language: the code of their language.

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
    model = bm25s.BM25(**_SETTINGS)
    model.index((ids, vocabulary), create_empty_token=False, show_progress=False)
    model.save(str(folder), show_progress=False)
    checksums = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    record = {"settings": {**_SETTINGS, "language": language}, "documents": len(ids), "sha256": checksums}
    (folder / BM25_RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


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
        folder = index / BM25_FOLDER
        check_checksums(folder, BM25_RECORD, sorted(path.name for path in folder.iterdir()))
        try:
            record = json.loads((folder / BM25_RECORD).read_text(encoding="utf-8"))
            language = record["settings"]["language"]
            same_settings = record["settings"] == {**_SETTINGS, "language": language}
            model = bm25s.BM25.load(str(folder), mmap=True, show_progress=False)
        except Exception as error:  # bm25s and NumPy raise errors of many types for damaged files
            reason = first_line(error)
            raise TourError(f"{folder} cannot be read as a BM25 index ({reason:.200}); build it again.") from error
        docids = read_docids(index / "docid")
        if not same_settings:
            raise TourError(f"{folder} was made by another version, with other settings; build it again.")
        if not record.get("documents") == model.scores["num_docs"] == len(docids):
            raise TourError(f"{folder} is damaged: it has not one document per line of `docid`; build it again.")
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


def _stemmers() -> Any:
    return import_optional("Stemmer", extra="bm25")
