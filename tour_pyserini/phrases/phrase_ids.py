"""Ids and names of phrases: from the id of a phrase in the index to its docid and offsets.

The id of a phrase holds the row of its first token and the distance to the row of its last token.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from tour_pyserini.core.arrays import Ids
from tour_pyserini.data.documents import Passage, UnknownDocument
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.index import PhraseIndex

_DISTANCE_BITS = 16
LONGEST_PHRASE = (1 << (_DISTANCE_BITS - 1)) - 1
"""The largest possible limit of words of a phrase: a word has at most two rows, and the distance has 16 bits."""


def phrase_id(start: Ids, end: Ids) -> Ids:
    """The ids of the phrases whose first and last tokens are at these rows."""
    return (start << _DISTANCE_BITS) | (end - start)


def start_and_end(ids: Ids) -> tuple[Ids, Ids]:
    """The rows of the first and last tokens of phrases; the inverse of `phrase_id`."""
    start = ids >> _DISTANCE_BITS
    return start, start + (ids & ((1 << _DISTANCE_BITS) - 1))


class PhraseSpan(NamedTuple):
    """A phrase by its position in the corpus: `text[begin:end]` of the passage `docid`."""

    docid: str
    begin: int
    end: int

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read the name of a phrase, such as `nq-0:77-98`; the inverse of `str(span)`."""
        docid, _, offsets = name.rpartition(":")
        begin, _, end = offsets.partition("-")
        return cls(docid, int(begin), int(end))

    def __str__(self) -> str:
        return f"{self.docid}:{self.begin}-{self.end}"


class PhraseNames:
    """The names of the phrases of an index, by phrase id; a searcher uses it like a sequence of docids."""

    def __init__(self, index: PhraseIndex) -> None:
        self._index = index

    def __getitem__(self, id_: int) -> str:
        """The name of a phrase, such as `nq-0:77-98`; no two phrases have the same name."""
        return str(self.span(id_))

    def span(self, id_: int) -> PhraseSpan:
        """The docid and offsets of a phrase."""
        start, end = start_and_end(np.int64(id_))  # type: ignore[arg-type]
        first, last = self._index.rows[start], self._index.rows[end]
        if first["passage"] >= len(self._index.docids):
            raise TourError(f"the phrase index is damaged: its row {int(start)} is in no passage; build it again.")
        return PhraseSpan(self._index.docids[int(first["passage"])], int(first["begin"]), int(last["end"]))


def title_and_text(texts: Mapping[str, str], span: PhraseSpan) -> tuple[str, str]:
    """The title and the text of the passage that contains a phrase.

    Raises:
        TourError: if the document is unknown, or too short to contain the phrase.
    """
    try:
        passage = texts[span.docid]
    except UnknownDocument:
        raise
    except KeyError:
        raise UnknownDocument(span.docid, "the given texts") from None
    title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
    if span.end > len(text):
        raise TourError(
            f"the index has a phrase at {span.begin}-{span.end} of document {span.docid!r}, which has {len(text)} "
            "characters; give the corpus that the index was built from."
        )
    return title, text
