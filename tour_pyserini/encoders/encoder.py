"""Encoders of queries and documents, around what runs their model; the text and the vector of a query."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError

# The fields in which Pyserini's topic formats store the text of a query, in order of preference.
_TEXT_FIELDS = ("query", "text", "title", "query_txt")


class TextRunner(Protocol):
    """Computes vectors of texts: `TorchRunner`, `GraphRunner`, `FunctionRunner`.

    Attributes:
        backend: what runs the model: `torch`, `onnx` or `function`.
        prompt: what the model itself puts before each text of its role; "" for nothing.
        length: tokens of a text that are read, unless another number is given; None: all.
        limit: most tokens that can be read; None: any number.
        special_tokens: tokens that every text gets besides its own.
        settings: what vectors depend on besides the model's files, for records.
    """

    backend: str
    prompt: str
    length: int | None
    limit: int | None
    special_tokens: int
    settings: dict[str, Any]

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        ...


class FunctionRunner:
    """A function from a list of texts to vectors [n, d]."""

    backend = "function"
    prompt = ""
    length: int | None = None
    limit: int | None = None
    special_tokens = 0

    def __init__(self, function: Callable[[list[str]], Any], **settings: Any) -> None:
        self._function, self.settings = function, settings

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        if max_length is not None:
            raise TourError("a function reads texts as they are; leave the maximum length out.")
        vectors = np.asarray(self._function([prompt + text for text in texts]), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise TourError(f"the encoder function gives {list(vectors.shape)} for {len(texts)} texts, not [n, d].")
        return vectors


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
    if not isinstance(query, str | dict):
        raise TourError(f"the query {q_id!r} must be a string or a dict, not {type(query).__name__}; give its text.")
    if isinstance(query, dict):
        query = next((query[name] for name in _TEXT_FIELDS if query.get(name)), "")
    if not isinstance(query, str) or not query.strip():
        raise TourError(f"the query {q_id!r} is empty; remove it or give it a text.")
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
        # `EncodedQueries` looks the text up in a table.
        raise TourError(f"the encoded queries have no vector for query {q_id!r} ({query!r}); encode it too.") from error
