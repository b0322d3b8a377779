"""Vectors of documents from one of Pyserini's document encoders."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.data.documents import Document, Passage, passage
from tour_pyserini.errors import TourError
from tour_pyserini.support.checkpoints import POSITIONS_AFTER_PADDING

MAX_LENGTH = 256


def encode_documents(
    encoder: Any, documents: Sequence[Document], *, batch_size: int = 64, max_length: int = MAX_LENGTH
) -> np.ndarray:
    """Encode documents: float32 [n, d], in their own order.

    They are encoded in the order of their length, so that a batch holds little padding. The encoder reads title and
    text as under Pyserini: `title text` for most, a pair for DPR. Where one of the two is empty it reads the other
    alone (Pyserini would give it the word None), and a prefix stands before the title.
    """
    rows: list[np.ndarray | None] = [None] * len(documents)
    for batch in _batches(encoder, documents, batch_size):
        chosen = [documents[i] for i in batch]
        titles = [document.title for document in chosen] if _paired(encoder, chosen[0]) else None
        texts = [document.text if titles else passage(document.title, document.text) for document in chosen]
        more = {} if titles is None else {"titles": titles}
        vectors = _checked(encoder.encode(texts=texts, max_length=max_length, **more), encoder, chosen)
        for i, vector in zip(batch, vectors, strict=True):
            rows[i] = vector
    return np.stack([row for row in rows if row is not None])


def only_fields(fields: Collection[str], document: Document) -> Document:
    """A document with those of its fields (`title`, `text`) that an index holds, without white space around them.

    Example:
        only_fields(["text"], Document("a", "Title", " text "))  # Document("a", "", "text")
    """
    title = document.title.strip() if "title" in fields else ""
    return Document(document.docid, title, document.text.strip() if "text" in fields else "")


def fitting_length(encoder: Any, wanted: int | None) -> int:
    """How many tokens of a document the encoder reads: what is wanted, or 256, or all it has positions for.

    Raises:
        TourError: if more are wanted than the encoder's model has positions for, or too few for a single word.
    """
    positions = _positions(encoder)
    if wanted is None:
        return min(MAX_LENGTH, positions or MAX_LENGTH)
    if positions and wanted > positions:
        raise TourError(f"the encoder reads at most {positions} tokens, not {wanted}; change --max-length.")
    special = getattr(getattr(encoder, "tokenizer", None), "num_special_tokens_to_add", None)
    # Tokenizers do not cut at all where not even the special tokens fit.
    if special and wanted <= (fewest := special(pair=True)):
        raise TourError(f"the encoder reads words from {fewest + 1} tokens on, not {wanted}; change --max-length.")
    return wanted


def _positions(encoder: Any) -> int | None:
    """The longest input of the encoder's model in tokens, None where it does not say."""
    config = getattr(getattr(encoder, "model", None), "config", None)
    positions = getattr(config, "max_position_embeddings", None)
    if positions and getattr(config, "model_type", None) in POSITIONS_AFTER_PADDING:
        positions -= (getattr(config, "pad_token_id", None) or 0) + 1
    return positions


def _batches(encoder: Any, documents: Sequence[Document], batch_size: int) -> Iterator[list[int]]:
    """Positions, grouped by whether the encoder gets a title, then by length."""
    for paired in (False, True):
        group = [i for i, document in enumerate(documents) if _paired(encoder, document) is paired]
        group.sort(key=lambda i: len(documents[i].title) + len(documents[i].text))
        yield from (group[start : start + batch_size] for start in range(0, len(group), batch_size))


def _paired(encoder: Any, document: Document) -> bool:
    return bool(document.title and document.text) and not getattr(encoder, "prefix", None)


def _checked(vectors: Any, encoder: Any, documents: Sequence[Document]) -> np.ndarray:
    vectors = np.asarray(vectors)
    if vectors.dtype.kind != "f" or vectors.ndim != 2:
        raise TourError(f"{type(encoder).__name__} is not a dense encoder; choose another --encoder.")
    if not (finite := np.isfinite(vectors).all(axis=1)).all():
        raise TourError(f"the encoder gives no finite vector for document {documents[int(finite.argmin())].docid!r}.")
    return vectors.astype(np.float32, copy=False)


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
