"""Encoders of queries and documents, around what runs their model; vectors of queries, documents and passages."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.data.texts import Document, Passage
from tour_pyserini.errors import TourError
from tour_pyserini.support.model_files import position_limit

# The fields in which Pyserini's topic formats store the text of a query, in order of preference.
_TEXT_FIELDS = ("query", "text", "title", "query_txt")

_MAX_LENGTH = 256  # tokens of a document that an encoder of Pyserini reads, unless another number is given
_BATCH_SIZE = 64  # documents that an encoder of Pyserini gets at once


class TextRunner(ABC):
    """Computes vectors of texts: by torch, by ONNX Runtime, or by a function.

    Attributes:
        backend: what runs the model: `torch`, `onnx` or `function`.
        prompt: what the model itself puts before each text of its role; "" for nothing.
        length: tokens of a text that are read, unless another number is given; None: all.
        limit: most tokens that can be read; None: any number.
        special_tokens: tokens that every text gets besides its own.
        settings: what vectors depend on besides the model's files, for records.
    """

    backend: str
    settings: dict[str, Any]
    prompt: str = ""
    length: int | None = None
    limit: int | None = None
    special_tokens: int = 0

    @abstractmethod
    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""


class TextEncoder:
    """What an encoder of queries and one of documents share; they have the interfaces that Pyserini's have.

    Attributes:
        runner: what runs the model.
        prompt: put before every text.

    Args:
        runner: what runs the model.
        prefix: replaces the model's own prompt, and is followed by a space as in Pyserini; "" for no prompt at all.
    """

    has_model = True  # Pyserini asks for this

    def __init__(self, runner: TextRunner, *, prefix: str | None = None) -> None:
        self.runner = runner
        self.prompt = runner.prompt if prefix is None else f"{prefix} " if prefix else ""

    @property
    def settings(self) -> dict[str, Any]:
        """What vectors depend on besides the model's files and the maximum length, for records."""
        return {"prompt": self.prompt, "backend": self.runner.backend, **self.runner.settings}


class TextQueryEncoder(TextEncoder):
    """Encodes queries: each has the vector that it has alone."""

    def encode(self, query: str, max_length: int | None = None) -> Floats:
        """The vector [d] of a query."""
        return self.encode_batch([query], max_length)[0]

    def encode_batch(self, queries: Sequence[str], max_length: int | None = None) -> Floats:
        """The vectors [n, d] of the queries."""
        return self.runner.vectors(list(queries), prompt=self.prompt, max_length=max_length)


class TextDocumentEncoder(TextEncoder):
    """Encodes documents."""

    def encode(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, max_length: int | None = None, **_: Any
    ) -> Floats:
        """The vectors [n, d] of documents; a title stands before its text."""
        if titles is not None:
            texts = [f"{title} {text}" for title, text in zip(titles, texts, strict=True)]
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        length = self.runner.length if max_length is None else max_length
        return self.runner.vectors(list(texts), prompt=self.prompt, max_length=length)


def text_of(query: str | dict[str, Any], q_id: str) -> str:
    """The text of a query, which a re-ranker reads; a dict has it as `query`, `text`, `title` or `query_txt`."""
    if isinstance(query, dict):
        query = next((query[name] for name in _TEXT_FIELDS if query.get(name)), "")
    if not isinstance(query, str) or not query.strip():
        what = "is empty" if isinstance(query, str) else f"is of the type {type(query).__name__}"
        raise TourError(f"the query {q_id!r} {what}; remove it or give it a text.")
    return query


def encode_queries(encoder: Any, queries: Any, q_ids: Sequence[str], dimension: int) -> Floats:
    """Encode queries as FaissSearcher does: in one batch if the encoder has `encode_batch`, else one by one.

    Args:
        encoder: a query encoder.
        queries: n texts or dicts, or their vectors [n, d], which are only checked.
        q_ids: their ids, for messages.
        dimension: d of the index.

    Returns:
        float32 [n, d].

    Raises:
        TourError: if a vector has another dimension or is not finite, or encoded queries lack a query.
    """
    vectors: Any
    if encoder is None and not isinstance(queries, np.ndarray):
        raise TourError("the index was opened without a query encoder; give one: open_index(index, encoder).")
    if isinstance(queries, np.ndarray):
        vectors = queries
    elif hasattr(encoder, "encode_batch") and all(isinstance(query, str) for query in queries):
        vectors = encoder.encode_batch(queries)
    else:
        vectors = [_encode(encoder, query, q_id) for query, q_id in zip(queries, q_ids, strict=True)]
    rows = [np.asarray(vector, dtype=np.float32).reshape(-1) for vector in vectors]
    for row, q_id in zip(rows, q_ids, strict=True):
        if len(row) != dimension:
            raise TourError(
                f"the query encoder gives {len(row)} dimensions and the index has {dimension}; "
                "use the encoder that built the index."
            )
        if not np.isfinite(row).all():
            raise TourError(f"the vector of query {q_id!r} contains NaN or infinity; check the query encoder.")
    return np.stack(rows)


def _encode(encoder: Any, query: Any, q_id: str) -> Any:
    try:
        return encoder.encode(**query) if isinstance(query, dict) else encoder.encode(query)
    except KeyError as error:
        # Encoded queries look the text up in a table.
        raise TourError(f"the encoded queries have no vector for query {q_id!r} ({query!r}); encode it too.") from error


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
    size, rows = batch_size or _BATCH_SIZE, dict[int, np.ndarray]()
    for titled in (False, True):  # a batch has titles as a separate argument, or none
        group = [i for i, document in enumerate(documents) if _has_own_title(encoder, document) is titled]
        group.sort(key=lambda i: len(documents[i].title) + len(documents[i].text))
        for batch in (group[start : start + size] for start in range(0, len(group), size)):
            chosen = [documents[i] for i in batch]
            titles = {"titles": [document.title for document in chosen]} if titled else {}
            texts = [document.text if titled else Passage(document.title, document.text) for document in chosen]
            vectors = encoder.encode(texts=texts, max_length=max_length or _MAX_LENGTH, **titles)
            rows |= zip(batch, _checked(vectors, encoder, chosen), strict=True)
    return np.stack([rows[i] for i in range(len(documents))])


@dataclass(eq=False)
class PassageVectors:
    """Encodes the passages at positions [m] of an index: float32 [m, d]. Each passage is encoded once.

    Attributes:
        encoder: the document encoder that built the index.
        docids: the docid at each position of the index.
        texts: passages by docid; a `Passage` has its title apart, and the encoder gets it as a title.
        dimension: d of the index.
        max_length: tokens of a passage that are read; None: what the encoder reads by itself.
        fields: the fields that the index was built from: `title`, `text` or both.
    """

    encoder: Any
    docids: Sequence[str]
    texts: Mapping[str, str]
    dimension: int
    max_length: int | None = None
    fields: Sequence[str] = ("title", "text")
    _encoded: dict[int, np.ndarray] = field(default_factory=dict, init=False)

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the passages at these positions."""
        new = [id_ for id_ in dict.fromkeys(ids.tolist()) if id_ not in self._encoded]
        if new:
            documents = [self._document(self.docids[id_]) for id_ in new]
            vectors = encode_documents(self.encoder, documents, max_length=self.max_length)
            if vectors.shape[1] != self.dimension:
                raise TourError(
                    f"the document encoder gives {vectors.shape[1]} dimensions and the index has {self.dimension}; "
                    "use the encoder that built the index."
                )
            self._encoded.update(zip(new, vectors, strict=True))
        return np.array([self._encoded[id_] for id_ in ids.tolist()], dtype=np.float32).reshape(-1, self.dimension)

    def _document(self, docid: str) -> Document:
        content = self.texts[docid]
        title, text = content.parts if isinstance(content, Passage) else ("", content)
        return Document(docid, title, text).only(self.fields)


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
        length = min(_MAX_LENGTH, limit or _MAX_LENGTH)
        count = getattr(getattr(encoder, "tokenizer", None), "num_special_tokens_to_add", None)
        special_tokens = count(pair=True) if count else 0
    if wanted is None:
        return length
    if limit and wanted > limit:
        raise TourError(f"the encoder reads at most {limit} tokens, not {wanted}; change --max-length.")
    if wanted <= special_tokens:  # tokenizers do not cut at all if not even the special tokens fit
        raise TourError(f"the encoder needs at least {special_tokens + 1} tokens, not {wanted}; change --max-length.")
    return wanted


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
