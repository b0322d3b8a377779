"""The words of a text that BM25 counts, by language."""

import re
import unicodedata
from collections.abc import Iterable
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

# Scripts that do not separate words by blanks, or (Hangul) separate phrases: pairs of neighbouring characters count.
_JOINED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
_PIECE = rf"[{_JOINED}]+|[[\p{{L}}\p{{M}}\p{{N}}_]--[{_JOINED}]]{{2,}}"
_ENGLISH_WORD = re.compile(r"\b\w\w+\b")


class Words:
    """Cuts texts of a language into the words that count: in lower case, without stop words, stemmed.

    A word has at least two characters. In scripts that do not separate words, each two neighbouring characters are one.

    Example:
        >>> Words("en")("The cats, sitting")
        ['cat', 'sit']
        >>> Words("zh")("北京是首都 2008")
        ['北京', '京是', '是首', '首都', '2008']
    """

    def __init__(self, language: str) -> None:
        """Take an ISO 639-1 code of `LANGUAGES` or `OTHERS`."""
        check_language(language)
        regex = import_optional("regex", extra="bm25")
        self._english = language == ENGLISH
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
        if self._english:
            pieces = _ENGLISH_WORD.findall(text.lower())
        else:
            # One way to write accents, wide letters and ligatures.
            found = self._piece.findall(unicodedata.normalize("NFKC", text).lower())
            pieces = [word for piece in found for word in self._parts(piece)]
        return [self._stem(word) for word in pieces if word not in self._stopwords]

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


def language_of(texts: Iterable[str]) -> str:
    """English, or `none` where most letters of the texts are not Latin."""
    regex = import_optional("regex", extra="bm25")
    letters = latin = 0
    for text in texts:
        letters += len(regex.findall(r"\p{L}", text))
        latin += len(regex.findall(r"\p{Latin}", text))
    return ENGLISH if 2 * latin >= letters else NO_LANGUAGE
