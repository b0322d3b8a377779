"""The words of a text that BM25 counts, by language."""

import re
import unicodedata
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.support.optional import import_optional


class Language(NamedTuple):
    """What is done with the words of a language.

    Attributes:
        stemmer: Snowball's name of the language.
        stopwords: the name of its list in bm25s; None: every word counts.
    """

    stemmer: str
    stopwords: str | None = None


ENGLISH = "en"
NO_LANGUAGE = "none"
LANGUAGES = {
    "ar": Language("arabic"),
    "ca": Language("catalan"),
    "cs": Language("czech"),
    "da": Language("danish", "STOPWORDS_DANISH"),
    "de": Language("german", "STOPWORDS_GERMAN"),
    "el": Language("greek"),
    ENGLISH: Language("english", "STOPWORDS_EN"),
    "es": Language("spanish", "STOPWORDS_SPANISH"),
    "et": Language("estonian"),
    "eu": Language("basque"),
    "fa": Language("persian"),
    "fi": Language("finnish"),
    "fr": Language("french", "STOPWORDS_FRENCH"),
    "ga": Language("irish"),
    "hi": Language("hindi"),
    "hu": Language("hungarian"),
    "hy": Language("armenian"),
    "id": Language("indonesian"),
    "it": Language("italian", "STOPWORDS_ITALIAN"),
    "lt": Language("lithuanian"),
    "ne": Language("nepali"),
    "nl": Language("dutch", "STOPWORDS_DUTCH"),
    "no": Language("norwegian", "STOPWORDS_NORWEGIAN"),
    "pl": Language("polish"),
    "pt": Language("portuguese", "STOPWORDS_PORTUGUESE"),
    "ro": Language("romanian"),
    "ru": Language("russian", "STOPWORDS_RUSSIAN"),
    "sr": Language("serbian"),
    "sv": Language("swedish", "STOPWORDS_SWEDISH"),
    "ta": Language("tamil"),
    "tr": Language("turkish", "STOPWORDS_TURKISH"),
    "yi": Language("yiddish"),
}
"""Languages whose words are stemmed, by their ISO 639-1 code."""
OTHERS = ("bn", "ja", "ko", "sw", "te", "th", "uk", "vi", "yo", "zh", NO_LANGUAGE)
"""Others: every word counts as it is written."""

_TURKISH = "tr"

# Scripts that do not separate words by blanks, or (Hangul) separate phrases: pairs of neighbouring characters count.
_JOINED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
# Elsewhere letters, digits and their marks; a mark alone (NFKC makes one of an accent without a letter) begins no word.
_PIECE = rf"[{_JOINED}]+|[[\p{{L}}\p{{N}}_]--[{_JOINED}]][[\p{{L}}\p{{M}}\p{{N}}_]--[{_JOINED}]]+"
_ASCII_PIECE = re.compile(r"\w\w+")  # the same pieces of ASCII text, found faster


class Words:
    """Cuts texts of a language into the words that count: in lower case, without stop words, stemmed.

    A word has at least two characters. In scripts that do not separate words, each two neighbouring characters are one.
    Texts are cut in the same way in every language: it decides about stemmer and stop words alone,
    but for the lower case of I in Turkish.

    Example:
        >>> Words("en")("The cats, sitting in 北京动物园")
        ['cat', 'sit', '北京', '京动', '动物', '物园']
    """

    def __init__(self, language: str) -> None:
        """Take an ISO 639-1 code of `LANGUAGES` or `OTHERS`."""
        check_language(language)
        regex = import_optional("regex", extra="bm25")
        self._turkish = language == _TURKISH
        self._piece = regex.compile(_PIECE, regex.V1)
        self._joined = regex.compile(f"[{_JOINED}]", regex.V1)
        self._stem: Any = str
        self._stopwords: frozenset[str] = frozenset()
        if known := LANGUAGES.get(language):
            # A stemmer must not be shared by threads.
            self._stem = import_optional("Stemmer", extra="bm25").Stemmer(known.stemmer).stemWord
            if known.stopwords is not None:
                lists = import_optional("bm25s.stopwords", extra="bm25")
                self._stopwords = frozenset(getattr(lists, known.stopwords))

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
        TourError: that names the codes.
    """
    if language not in LANGUAGES and language not in OTHERS:
        known = ", ".join(sorted({*LANGUAGES, *OTHERS} - {NO_LANGUAGE}))
        raise TourError(f"the language {language!r} is not known; choose one of {known}, or {NO_LANGUAGE}.")
