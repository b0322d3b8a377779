"""What the searches of one process share: models, indexes and texts are opened once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Make = Callable[..., Any]


class Session:
    """Opens things for the search command, and gives the same ones out again.

    Example:
        session = Session()
        search.main([...], once=session.once)
        search.main([...], once=session.once)
    """

    def __init__(self, wrappers: Mapping[Make, Make] | None = None) -> None:
        """Wrap what some functions make, if any."""
        self._wrappers = wrappers or {}
        self._made: dict[str, Any] = {}

    def once(self, make: Make, *args: Any, **options: Any) -> Any:
        """`make(*args, **options)`, or what it gave the last time."""
        key = repr((make, [_key(arg) for arg in args], sorted(options.items())))
        if key not in self._made:
            made = self._wrappers.get(make, _as_it_is)(make(*args, **options))
            # Arguments may be part of the key by their identity, so they stay alive.
            self._made[key] = (made, args)
        return self._made[key][0]


class EncodedOnce:
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
        if name == "_encoder":  # not there yet: an object being copied
            raise AttributeError(name)
        inner = getattr(self._encoder, name)
        return self._encode_batch if name == "encode_batch" else inner


def _as_it_is(made: Any) -> Any:
    return made


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else id(value)
