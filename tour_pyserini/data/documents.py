"""A document of a corpus, and its passage: the text that a model reads."""

import json
from typing import NamedTuple, Self

from tour_pyserini.data.input_files import first_field
from tour_pyserini.errors import TourError

ID_FIELDS = ("_id", "id", "docid")
TEXT_FIELDS = ("text", "contents")


class Document(NamedTuple):
    """A document of a corpus; title and text may be empty."""

    docid: str
    title: str
    text: str


def parse_document(line: bytes) -> Document:
    """Parse one line of a corpus file (UTF-8 JSON, with or without its line end).

    Raises:
        ValueError: the reason, such as "is not JSON"; the caller adds file and line.
    """
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    docid = first_field(record, ID_FIELDS)
    if isinstance(docid, bool) or not isinstance(docid, str | int) or docid == "":
        raise ValueError(f"has no id (expected one of {', '.join(ID_FIELDS)})")
    text = first_field(record, TEXT_FIELDS)
    if not isinstance(text, str):
        raise ValueError(f"has no text (expected one of {', '.join(TEXT_FIELDS)})")
    title = record.get("title")
    if not isinstance(title, str | None):
        raise ValueError("has a title that is not a string")
    document = Document(str(docid), title or "", text)
    # JSON can contain half of an escaped surrogate pair, which tokenizers refuse. Other lines skip the slow repair.
    return Document(*map(_without_half_pairs, document)) if b"\\ud" in line.lower() else document


def _without_half_pairs(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Passage(str):
    """The title, a space and the text of a document; if one of the two is empty, only the other.

    It is a string that also remembers where the title ends, for models that read title and text separately.

    Example:
        >>> passage = Passage("Nobel Prize", "It was first awarded in 1901.")
        >>> passage
        'Nobel Prize It was first awarded in 1901.'
        >>> passage.parts
        ('Nobel Prize', 'It was first awarded in 1901.')
    """

    __slots__ = ("_end",)
    _end: int

    def __new__(cls, title: str, text: str, between: str = " ") -> Self:
        """Join title and text with the one character `between`."""
        self = super().__new__(cls, f"{title}{between}{text}" if title and text else title or text)
        self._end = len(title)
        return self

    @property
    def parts(self) -> tuple[str, str]:
        """Title and text; either may be empty."""
        return self[: self._end], self[self._end + bool(self._end) :]

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """Arguments that make a copy; copy and pickle use them."""
        return *self.parts, self[self._end : self._end + 1]


def one_line_parts(passage: str) -> tuple[str, str]:
    """Split a passage into title and text, each without line breaks; a plain string has no title.

    Pyserini's evaluation expects `title`, a line break and `text`, and ignores everything after a second line break.
    """
    title, text = passage.parts if isinstance(passage, Passage) else ("", str(passage))
    return title.replace("\n", " "), text.replace("\n", " ")


class UnknownDocument(TourError, KeyError):
    """A document is not in the corpus.

    It is a KeyError too, because `in` and `get` of a Mapping need one.
    """

    def __init__(self, docid: str, corpus: object) -> None:
        super().__init__(
            f"document {docid!r} is not in {corpus}; the index and the corpus must come from the same collection."
        )

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0])
