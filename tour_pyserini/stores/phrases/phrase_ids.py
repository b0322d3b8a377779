"""From a phrase's number to the passage and the stretch of text that it is."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from tour_pyserini.data.documents import Passage, UnknownDocument
from tour_pyserini.errors import TourError
from tour_pyserini.stores.phrases.completion import start_and_end
from tour_pyserini.stores.phrases.phrase_index import PhraseIndex


class Place(NamedTuple):
    """Where a phrase stands: `text[begin:end]` of the passage with that id."""

    docid: str
    begin: int
    end: int

    @classmethod
    def parse(cls, name: str) -> Self:
        """The place that a name, such as `nq-0:77-98`, stands for."""
        docid, _, span = name.rpartition(":")
        begin, _, end = span.partition("-")
        return cls(docid, int(begin), int(end))

    def __str__(self) -> str:
        return f"{self.docid}:{self.begin}-{self.end}"


class Places:
    """Phrase numbers to places; a sequence of docids as far as those who look one up are concerned."""

    def __init__(self, index: PhraseIndex) -> None:
        self._index = index

    def __getitem__(self, id_: int) -> str:
        """The name of a phrase, such as `nq-0:77-98`, which no other phrase has."""
        return str(self.place(id_))

    def place(self, id_: int) -> Place:
        """Where a phrase stands."""
        start, end = start_and_end(np.int64(id_))  # type: ignore[arg-type]
        first, last = self._index.rows[start], self._index.rows[end]
        return Place(self._index.docids[int(first["passage"])], int(first["begin"]), int(last["end"]))


def title_and_text(texts: Mapping[str, str], place: Place) -> tuple[str, str]:
    """The title and the text of the passage that a phrase stands in.

    Raises:
        TourError: if the texts are not those that the index was made from.
    """
    try:
        passage = texts[place.docid]
    except UnknownDocument:
        raise
    except KeyError:
        raise UnknownDocument(place.docid, "the given texts") from None
    title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
    if place.end > len(text):
        raise TourError(
            f"the index has a phrase at {place.begin}-{place.end} of document {place.docid!r}, which has {len(text)} "
            "characters; give the corpus that the index was made from."
        )
    return title, text
