"""Hits: documents that were found, with their scores and texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tour_pyserini.core.candidates import Floats
from tour_pyserini.data.documents import UnknownDocument


@dataclass(eq=False)
class HitWithText:
    """Adds the passage's text to a hit. It is read when it is asked for: most hits of a long list never are."""

    docid: str
    score: float
    texts: Mapping[str, str] | None = field(default=None, repr=False, kw_only=True)

    @property
    def text(self) -> str | None:
        """The passage; None where the searcher was given no texts."""
        if self.texts is None:
            return None
        try:
            return self.texts[self.docid]
        except UnknownDocument:
            raise
        except KeyError:
            raise UnknownDocument(self.docid, "the given texts") from None

    def __eq__(self, other: Any) -> bool:
        """Whether the other hit is the same document with the same score; it may be one of Pyserini's."""
        if not (hasattr(other, "docid") and hasattr(other, "score")):
            return NotImplemented
        return (self.docid, self.score) == (other.docid, other.score)

    __hash__ = None  # type: ignore[assignment]  # as for Pyserini's hits, which can be changed


@dataclass(eq=False)
class Hit(HitWithText):
    """A document that was found.

    Attributes:
        docid: its name.
        score: its score; the hits of a list are in the order of their scores.
        text: its passage; None where the searcher was given no texts.
    """


@dataclass(eq=False)
class VectorHit(HitWithText):
    """A document that was found, with its vector [d]."""

    vectors: Floats
