"""Vectors of documents, from an encoder of this package or of Pyserini."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.data.texts import Document, Passage
from tour_pyserini.encoders.encoder import TextDocumentEncoder
from tour_pyserini.encoders.sentence_model import position_limit
from tour_pyserini.errors import TourError

MAX_LENGTH = 256  # tokens of a document that an encoder of Pyserini reads, unless another number is given
BATCH_SIZE = 64  # documents that an encoder of Pyserini gets at once


def encode_documents(
    encoder: Any, documents: Sequence[Document], *, batch_size: int | None = None, max_length: int | None = None
) -> np.ndarray:
    """Encode documents: float32 [n, d], one row for each document, in the given order.

    An encoder of this package gets `title text` of all documents at once. One of Pyserini's gets batches of similar
    length, so that they have little padding, and title and text as Pyserini gives them: joined as `title text` for most
    encoders, as a pair for DPR. If the title or the text is empty, the encoder gets only the other one (Pyserini would
    give it the word None). An encoder with a prefix gets `prefix title text`.
    """
    if isinstance(encoder, TextDocumentEncoder):
        texts = [str(Passage(document.title, document.text)) for document in documents]
        return _checked(encoder.encode(texts, max_length=max_length), encoder, documents)
    rows: list[np.ndarray | None] = [None] * len(documents)
    for batch in _batches(encoder, documents, batch_size or BATCH_SIZE):
        chosen = [documents[i] for i in batch]
        titles = [document.title for document in chosen] if _has_own_title(encoder, chosen[0]) else None
        texts = [document.text if titles else Passage(document.title, document.text) for document in chosen]
        title_argument = {} if titles is None else {"titles": titles}
        vectors = encoder.encode(texts=texts, max_length=max_length or MAX_LENGTH, **title_argument)
        for i, vector in zip(batch, _checked(vectors, encoder, chosen), strict=True):
            rows[i] = vector
    return np.stack([row for row in rows if row is not None])


class PassageVectors:
    """Encodes the passages at positions [m] of an index: float32 [m, d]. Each passage is encoded once."""

    def __init__(
        self,
        encoder: Any,
        *,
        docids: Sequence[str],
        texts: Mapping[str, str],
        dimension: int,
        max_length: int | None = None,
        fields: Sequence[str] = ("title", "text"),
    ) -> None:
        """Start with no vectors.

        Args:
            encoder: the document encoder that built the index.
            docids: the docid at each position of the index.
            texts: passages by docid; a `Passage` has its title apart, and the encoder gets it as a title.
            dimension: d of the index.
            max_length: tokens of a passage that are read; None: what the encoder reads by itself.
            fields: the fields that the index was built from: `title`, `text` or both.
        """
        self._encoder, self._docids, self._texts = encoder, docids, texts
        self._dimension, self._max_length, self._fields = dimension, max_length, fields
        self._encoded: dict[int, np.ndarray] = {}

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the passages at these positions."""
        new = [id_ for id_ in dict.fromkeys(ids.tolist()) if id_ not in self._encoded]
        if new:
            documents = [self._document(self._docids[id_]) for id_ in new]
            vectors = encode_documents(self._encoder, documents, max_length=self._max_length)
            if vectors.shape[1] != self._dimension:
                raise TourError(
                    f"the document encoder gives {vectors.shape[1]} dimensions and the index has {self._dimension}; "
                    "use the encoder that built the index."
                )
            self._encoded.update(zip(new, vectors, strict=True))
        return np.array([self._encoded[id_] for id_ in ids.tolist()], dtype=np.float32).reshape(-1, self._dimension)

    def _document(self, docid: str) -> Document:
        content = self._texts[docid]
        title, text = content.parts if isinstance(content, Passage) else ("", content)
        return only_fields(self._fields, Document(docid, title, text))


def only_fields(fields: Collection[str], document: Document) -> Document:
    """Keep the given fields (`title`, `text`) of a document, without white space around them; empty the others.

    Example:
        only_fields(["text"], Document("a", "Title", " text "))  # Document("a", "", "text")
    """
    title = document.title.strip() if "title" in fields else ""
    return Document(document.docid, title, document.text.strip() if "text" in fields else "")


def fitting_length(encoder: Any, wanted: int | None) -> int | None:
    """The number of tokens of a document that the encoder reads; None: all.

    Args:
        encoder: a document encoder.
        wanted: the number to check; None: what the model's files say, or for an encoder of Pyserini 256, or the model's
            limit if that is lower.

    Raises:
        TourError: if `wanted` is above the model's limit, or so small that no word fits.
    """
    if isinstance(encoder, TextDocumentEncoder):
        runner = encoder.runner
        length, limit, special_tokens = runner.length, runner.limit, runner.special_tokens
    else:
        limit = position_limit(getattr(getattr(encoder, "model", None), "config", None))
        length = min(MAX_LENGTH, limit or MAX_LENGTH)
        count = getattr(getattr(encoder, "tokenizer", None), "num_special_tokens_to_add", None)
        special_tokens = count(pair=True) if count else 0
    if wanted is None:
        return length
    if limit and wanted > limit:
        raise TourError(f"the encoder reads at most {limit} tokens, not {wanted}; change --max-length.")
    if wanted <= special_tokens:  # tokenizers do not cut at all if not even the special tokens fit
        raise TourError(f"the encoder needs at least {special_tokens + 1} tokens, not {wanted}; change --max-length.")
    return wanted


def _batches(encoder: Any, documents: Sequence[Document], batch_size: int) -> Iterator[list[int]]:
    """Positions of documents in batches: first those without a separate title, then those with one; by length."""
    for own_title in (False, True):
        group = [i for i, document in enumerate(documents) if _has_own_title(encoder, document) is own_title]
        group.sort(key=lambda i: len(documents[i].title) + len(documents[i].text))
        yield from (group[start : start + batch_size] for start in range(0, len(group), batch_size))


def _has_own_title(encoder: Any, document: Document) -> bool:
    """Whether the encoder gets the document's title as a separate argument."""
    return bool(document.title and document.text) and not getattr(encoder, "prefix", None)


def _checked(vectors: Any, encoder: Any, documents: Sequence[Document]) -> np.ndarray:
    vectors = np.asarray(vectors)
    if vectors.dtype.kind != "f" or vectors.ndim != 2:
        raise TourError(f"{type(encoder).__name__} is not a dense encoder; choose another --encoder.")
    if not (finite := np.isfinite(vectors).all(axis=1)).all():
        docid = documents[int(finite.argmin())].docid
        raise TourError(f"the encoder gives a vector with NaN or infinity for document {docid!r}; check the encoder.")
    return vectors.astype(np.float32, copy=False)
