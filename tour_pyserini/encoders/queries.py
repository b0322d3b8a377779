"""The text and the vector of a query, for all forms of queries that Pyserini accepts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError

# The fields in which Pyserini's topic formats store the text of a query, in order of preference.
_TEXT_FIELDS = ("query", "text", "title", "query_txt")


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
