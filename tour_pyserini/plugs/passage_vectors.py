"""Vectors of the few passages that are met, encoded on the spot."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.errors import TourError
from tour_pyserini.plugs.encode_documents import encode_documents, only_fields
from tour_pyserini.texts.document import Document
from tour_pyserini.texts.passage import Passage


class PassageVectors:
    """Positions [m] to vectors [m, d], from one of Pyserini's document encoders; each passage is encoded once."""

    def __init__(
        self,
        encoder: Any,
        *,
        docids: Sequence[str],
        texts: Mapping[str, str],
        dimension: int,
        max_length: int = 256,
        fields: Sequence[str] = ("title", "text"),
    ) -> None:
        """Set up an empty store.

        Args:
            encoder: the document encoder that built the index.
            docids: the docid at each position of the index.
            texts: passages by docid; a title that is known apart is encoded as the encoder wants titles.
            dimension: the index's.
            max_length: tokens of a passage that are read.
            fields: which of title and text the index was built from.
        """
        self._encoder, self._docids, self._texts = encoder, docids, texts
        self._dimension, self._max_length, self._fields = dimension, max_length, fields
        self._known: dict[int, np.ndarray] = {}

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the passages at these positions."""
        new = [id_ for id_ in dict.fromkeys(ids.tolist()) if id_ not in self._known]
        if new:
            documents = [self._document(self._docids[id_]) for id_ in new]
            vectors = encode_documents(self._encoder, documents, max_length=self._max_length)
            if vectors.shape[1] != self._dimension:
                raise TourError(
                    f"the document encoder gives {vectors.shape[1]} dimensions and the index has {self._dimension}; "
                    "use the encoder that built the index."
                )
            self._known.update(zip(new, vectors, strict=True))
        return np.array([self._known[id_] for id_ in ids.tolist()], dtype=np.float32).reshape(-1, self._dimension)

    def _document(self, docid: str) -> Document:
        passage = self._texts[docid]
        title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
        return only_fields(self._fields, Document(docid, title, text))
