"""One document of a corpus, and the text that a model reads of it."""

import json
from typing import Any, NamedTuple, Self

from tour_pyserini.errors import TourError

ID_FIELDS = ("_id", "id", "docid")
TEXT_FIELDS = ("text", "contents")


class Document(NamedTuple):
    """A document as the corpus gives it; title and text may be empty."""

    docid: str
    title: str
    text: str


def parse_document(line: bytes) -> Document:
    """The document on one line (UTF-8 JSON, with or without its line end).

    Raises:
        ValueError: with the reason alone; the caller knows file and line.
    """
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    docid = _first(record, ID_FIELDS)
    if isinstance(docid, bool) or not isinstance(docid, str | int) or docid == "":
        raise ValueError(f"has no id (expected one of {', '.join(ID_FIELDS)})")
    text = _first(record, TEXT_FIELDS)
    if not isinstance(text, str):
        raise ValueError(f"has no text (expected one of {', '.join(TEXT_FIELDS)})")
    title = record.get("title")
    if not isinstance(title, str | None):
        raise ValueError("has a title that is not a string")
    document = Document(str(docid), title or "", text)
    # JSON can escape half of a surrogate pair, which no tokenizer takes; only such lines pay for the repair.
    return Document(*map(_whole, document)) if b"\\ud" in line.lower() else document


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Passage(str):
    """The title, a space and the text; one of them alone where the other is empty.

    It is a string like any other, and still knows where the title ends, for models that read the two apart.

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
        """Put them together, with one character `between` them."""
        self = super().__new__(cls, f"{title}{between}{text}" if title and text else title or text)
        self._end = len(title)
        return self

    @property
    def parts(self) -> tuple[str, str]:
        """Title and text; either may be empty."""
        return self[: self._end], self[self._end + bool(self._end) :]

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """What a copy is made from, in this process or in another one."""
        return *self.parts, self[self._end : self._end + 1]


def passage(title: str, text: str) -> Passage:
    """The passage of a document.

    Example:
        >>> passage("Nobel Prize", "It was first awarded in 1901.")
        'Nobel Prize It was first awarded in 1901.'
    """
    return Passage(title, text)


def one_line_parts(passage: str) -> tuple[str, str]:
    """Both on one line each, as the passages of DPR's Wikipedia are; a plain string is all text.

    Pyserini's evaluation reads `title`, a line break and `text`, and nothing after a second line break.
    """
    title, text = passage.parts if isinstance(passage, Passage) else ("", str(passage))
    return title.replace("\n", " "), text.replace("\n", " ")


class UnknownDocument(TourError, KeyError):
    """The index returned a document that the corpus does not hold.

    A KeyError too, so that `in` and `get` of a Mapping work as they should.
    """

    def __init__(self, docid: str, corpus: object) -> None:
        super().__init__(
            f"document {docid!r} is not in {corpus}; the index and the corpus must come from the same collection."
        )

    def __str__(self) -> str:
        # KeyError would show the quoted repr of its argument instead of the sentence.
        return str(self.args[0])
