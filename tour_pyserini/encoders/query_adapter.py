"""A learnt correction of query vectors: the file that `python -m tour_pyserini.learn` writes, and its use."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write

PROBES = ("who wrote the first dictionary", "a long river in South America", "treatment of high blood pressure")
"""Texts whose vectors tell one query encoder from another, also one that has no name or files."""
_LEAST_COSINE = 0.98  # 8-bit weights and 16-bit numbers stay above it, another model, prompt or pooling does not
_KEY, _VERSION = "tour_adapter", 1
_TENSORS = ("left", "right", "probes")


@dataclass(frozen=True)
class QueryAdapter:
    """Changes a query vector q to q + U V^T q, scaled to the length of q.

    The length is kept because similarities would otherwise have another unit.

    Attributes:
        left: U [d, r].
        right: V [d, r].
        probes: the vectors [3, d] that the encoder it was learnt for gives to PROBES.
        about: how it was learnt: encoder, index, re-ranker, labels, settings and gain.
    """

    left: Floats
    right: Floats
    probes: Floats
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _TENSORS:
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float32))

    @property
    def fingerprint(self) -> str:
        """Identifies what it computes: the two matrices."""
        digest = hashlib.blake2b(digest_size=16)
        for matrix in (self.left, self.right):
            digest.update(repr(matrix.shape).encode() + matrix.astype("<f4").tobytes())
        return digest.hexdigest()

    def adapt(self, vectors: Floats) -> Floats:
        """The corrected vectors, float32 [n, d], of query vectors [n, d]; each depends on its own vector alone.

        Raises:
            TourError: if the vectors have another dimension.
        """
        if vectors.shape[-1] != len(self.left):
            raise TourError(
                f"the adapter corrects vectors of {len(self.left)} dimensions, and the query encoder gives "
                f"{vectors.shape[-1]}; use the encoder that it was learnt for ({self.about.get('encoder')})."
            )
        return corrected(vectors, self.left, self.right)

    @staticmethod
    def probe(encoder: Any) -> Floats:
        """The vectors, float32 [3, d], that an encoder gives to PROBES.

        Raises:
            TourError: if it cannot encode them, because it looks vectors up in a table.
        """
        try:
            return np.stack([np.asarray(encoder.encode(text), dtype=np.float32).reshape(-1) for text in PROBES])
        except KeyError as error:
            raise TourError(
                "an adapter corrects vectors of an encoder, and that of queries that were encoded before is not "
                "known; give the encoder."
            ) from error

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read an adapter.

        Raises:
            TourError: if the file does not exist or is not an adapter.
        """
        from safetensors import SafetensorError, safe_open

        if not Path(path).is_file():
            raise TourError(
                f"the adapter {os.fspath(path)} does not exist; make it with python -m tour_pyserini.learn."
            )
        try:
            with safe_open(path, framework="numpy") as file:
                described = json.loads((file.metadata() or {})[_KEY])
                if described["version"] != _VERSION:
                    raise ValueError(f"it has layout {described['version']}, and this version reads layout {_VERSION}")
                return cls(**{name: file.get_tensor(name) for name in _TENSORS}, about=described["about"])
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
            raise TourError(
                f"{os.fspath(path)} is not an adapter of query vectors ({first_line(error):.200}); "
                "make one with python -m tour_pyserini.learn."
            ) from error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, which holds numbers and text only; the same adapter, the same bytes."""
        from safetensors.numpy import save

        # One key only: safetensors writes several in any order.
        about = json.dumps({"version": _VERSION, "about": dict(self.about)}, sort_keys=True, ensure_ascii=False)
        content = save({name: getattr(self, name) for name in _TENSORS}, {_KEY: about})
        with atomic_write(path, "wb") as file:
            file.write(content)


class AdaptedQueryEncoder:
    """A query encoder whose vectors an adapter corrects.

    Example:
        encoder = AdaptedQueryEncoder(load_query_encoder("default"), "revdict.adapter")
        hits = FaissSearcher("indexes/revdict", encoder).search("a fleshy European plant")

    Args:
        encoder: anything with `encode(query)`; `encode_batch(queries)` is used where it has one.
        adapter: an adapter, or its file.

    Raises:
        TourError: if the encoder's vectors of a few texts are not those of the encoder that the adapter was learnt for.
    """

    def __init__(self, encoder: Any, adapter: QueryAdapter | str | os.PathLike[str]) -> None:
        self._encoder = encoder
        self.adapter = adapter if isinstance(adapter, QueryAdapter) else QueryAdapter.read(adapter)
        probes = QueryAdapter.probe(encoder)
        self.adapter.adapt(probes)  # it checks the dimension
        norms = np.linalg.norm(probes, axis=1) * np.linalg.norm(self.adapter.probes, axis=1)
        cosines = (probes * self.adapter.probes).sum(axis=1) / np.maximum(norms, np.finfo(np.float32).tiny)
        if cosines.min() < _LEAST_COSINE:
            name = self.adapter.about.get("encoder")
            raise TourError(
                f"the adapter was learnt for another query encoder ({name}): this one gives the "
                f"text {PROBES[int(cosines.argmin())]!r} a vector whose cosine with that one's is {cosines.min():.3f}; "
                "use that encoder and its settings, or learn an adapter for this one."
            )

    def encode(self, query: str, **options: Any) -> Floats:
        """The corrected vector [d] of a query."""
        return self.adapter.adapt(np.asarray(self._encoder.encode(query, **options)).reshape(1, -1))[0]

    def encode_batch(self, queries: Sequence[str], **options: Any) -> Floats:
        """The corrected vectors [n, d] of queries, which the wrapped encoder encodes at once if it can."""
        if hasattr(self._encoder, "encode_batch"):
            return self.adapter.adapt(np.asarray(self._encoder.encode_batch(queries, **options)))
        return np.stack([self.encode(query, **options) for query in queries])


def corrected(vectors: Floats, left: Floats, right: Floats) -> Floats:
    """Vectors q + U V^T q, scaled to the lengths of q, float32 [n, d].

    Each depends on its own q alone, to the last bit: a product of several rows may be rounded differently from that
    of one, so that they are computed one by one.

    Args:
        vectors: q [n, d].
        left: U [d, r].
        right: V [d, r].
    """
    result = np.array(vectors, dtype=np.float32)
    for row, vector in enumerate(result):
        moved = vector + left @ (right.T @ vector)
        before, after = np.linalg.norm(vector), np.linalg.norm(moved)
        if after > 0:
            result[row] = moved * (before / after)
    return result
