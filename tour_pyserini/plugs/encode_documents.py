"""Vectors of documents, from one of Pyserini's document encoders."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.texts.document import Document
from tour_pyserini.texts.passage import passage


def encode_documents(
    encoder: Any, documents: Sequence[Document], *, batch_size: int = 64, max_length: int = 256
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
