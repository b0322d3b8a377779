"""Queries in the forms Pyserini takes: their texts, and their vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.errors import TourError

# The names under which Pyserini's topic formats keep a query's text.
_TEXT_FIELDS = ("query", "text", "title", "query_txt")


def text_of(query: str | dict[str, Any], q_id: str) -> str:
    """The text a re-ranker reads."""
    if not isinstance(query, str | dict):
        raise TourError(f"the query {q_id!r} is neither text nor a dict but {type(query).__name__}; give its text.")
    if isinstance(query, dict):
        query = next((query[name] for name in _TEXT_FIELDS if query.get(name)), "")
    if not isinstance(query, str) or not query.strip():
        raise TourError(f"the query {q_id!r} is empty; remove it or give it a text.")
    return query


def encode_queries(encoder: Any, queries: Any, q_ids: Sequence[str], dimension: int) -> Floats:
    """Vectors [n, d] as FaissSearcher makes them: in a batch where the encoder can, one by one otherwise."""
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
            raise TourError(f"the vector of query {q_id!r} holds NaN or infinity; check the query encoder.")
    return np.stack(rows)


def _encode(encoder: Any, query: Any, q_id: str) -> Any:
    try:
        return encoder.encode(**query) if isinstance(query, dict) else encoder.encode(query)
    except KeyError as error:
        # An encoder of stored vectors looks the text up.
        raise TourError(f"the encoded queries hold no vector for query {q_id!r} ({query!r}).") from error
