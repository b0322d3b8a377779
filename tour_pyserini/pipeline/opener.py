"""Opening models, indexes and texts, each of them once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Opener:
    """Opens what searches need, and keeps it for the next search of the same process.

    Example:
        opener = Opener()
        search(SearchRequest(topics="demo"), opener=opener)
        search(SearchRequest(topics="demo", config=TourConfig("rerank")), opener=opener)  # models are loaded already
    """

    def __init__(self, *, keep_query_vectors: bool = False) -> None:
        """Start with nothing open; with `keep_query_vectors`, no query is encoded twice."""
        self._keep_query_vectors = keep_query_vectors
        self._opened: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    def open(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """`make(*args, **options)`, or what it returned for the same arguments before."""
        key = repr((make, [_key(arg) for arg in args], sorted((name, _key(value)) for name, value in options.items())))
        if key not in self._opened:
            # Arguments may be part of the key by their identity, so they are kept alive.
            self._opened[key] = (make(*args, **options), (*args, *options.values()))
        return self._opened[key][0]

    def open_encoder(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The same for a query encoder."""
        encoder = self.open(make, *args, **options)
        return self.open(CachedQueryEncoder, encoder) if self._keep_query_vectors else encoder


class CachedQueryEncoder:
    """A query encoder that encodes each text once; everything else is the wrapped encoder's."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._vectors: dict[str, np.ndarray] = {}

    def encode(self, query: str, **options: Any) -> np.ndarray:
        """The vector [d] of a query."""
        key = repr((query, sorted(options.items())))
        if key not in self._vectors:
            self._vectors[key] = self._encoder.encode(query, **options)
        return self._vectors[key]

    def _encode_batch(self, queries: Sequence[str]) -> np.ndarray:
        """The vectors [n, d] of queries, where the wrapped encoder encodes several at once."""
        fresh = [query for query in dict.fromkeys(queries) if repr((query, [])) not in self._vectors]
        if fresh:
            vectors = self._encoder.encode_batch(fresh)
            self._vectors |= {repr((query, [])): vector for query, vector in zip(fresh, vectors, strict=True)}
        return np.stack([self._vectors[repr((query, []))] for query in queries])

    def __getattr__(self, name: str) -> Any:
        if name == "_encoder":  # an object being copied has no attribute yet
            raise AttributeError(name)
        inner = getattr(self._encoder, name)
        return self._encode_batch if name == "encode_batch" else inner


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else id(value)
