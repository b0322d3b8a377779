"""Hits: documents that were found, with their scores and texts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.texts import first_words, read_text


@dataclass(eq=False)
class Hit:
    """A document that was found.

    Attributes:
        docid: its name.
        score: its score; the hits of a list are in the order of their scores.
        vectors: its vector [d], where it was asked for.
        position: where it is in the index, if that is known.
        text: its passage; None where the searcher was given no texts.
        relevance: the probability that it is relevant; None without a calibration, which `tune` makes.
    """

    docid: str
    score: float
    vectors: Floats | None = field(default=None, repr=False)
    position: int | None = field(default=None, repr=False, kw_only=True)
    relevance: float | None = field(default=None, repr=False, kw_only=True)
    texts: Mapping[str, str] | None = field(default=None, repr=False, kw_only=True)

    @property
    def text(self) -> str | None:
        """The passage. It is read when it is asked for: most hits of a long list never are."""
        return None if self.texts is None else read_text(self.texts, self.docid)

    def __eq__(self, other: Any) -> bool:
        """Whether the other hit is the same document with the same score; it may be one of Pyserini's."""
        if not (hasattr(other, "docid") and hasattr(other, "score")):
            return NotImplemented
        return (self.docid, self.score) == (other.docid, other.score)

    __hash__ = None  # type: ignore[assignment]  # as for Pyserini's hits, which can be changed


class HitList(list[Any]):
    """A list of hits, best first; a notebook shows it as a table.

    Attributes:
        nothing: why the list is empty, where all hits were left out; else None.
    """

    nothing: str | None = None

    def _repr_html_(self) -> str:
        lines = [(hit.docid, hit.text or "", f"{hit.score:.4f}") for hit in self]
        return hits_html(["rank", "docid", "passage", "score"], lines)


def hits_html(head: Iterable[str], lines: Iterable[tuple[str, ...]]) -> str:
    """Lines (docid, passage, numbers ...), best first, as an HTML table with ranks and passages' first words."""
    from tour_pyserini.evaluation.tables import Table  # what only notebooks need is not loaded for all

    cells = [
        [str(rank), docid, first_words(passage, 80), *numbers]
        for rank, (docid, passage, *numbers) in enumerate(lines, start=1)
    ]
    return Table([list(head), *cells], words=3)._repr_html_()
