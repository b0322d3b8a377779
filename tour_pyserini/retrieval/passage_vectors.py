"""Vectors of the few passages that are met, encoded on the spot."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.errors import TourError

_BATCH = 32


class PassageVectors:
    """Positions [m] to vectors [m, d], through Pyserini's document-encoder interface; each passage is encoded once."""

    def __init__(
        self, encoder: Any, *, docids: Sequence[str], texts: Mapping[str, str], dimension: int, max_length: int = 256
    ) -> None:
        """Wrap an encoder whose `encode(texts=[...], max_length=...)` gives vectors [m, d]."""
        self._encoder, self._docids, self._texts = encoder, docids, texts
        self._dimension, self._max_length = dimension, max_length
        self._known: dict[int, np.ndarray] = {}

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the passages at these positions."""
        new = [id_ for id_ in dict.fromkeys(ids.tolist()) if id_ not in self._known]
        for start in range(0, len(new), _BATCH):
            part = new[start : start + _BATCH]
            passages = [self._texts[self._docids[id_]] for id_ in part]
            vectors = np.asarray(self._encoder.encode(texts=passages, max_length=self._max_length), dtype=np.float32)
            if vectors.shape != (len(part), self._dimension):
                raise TourError(
                    f"the document encoder gives {vectors.shape[-1]} dimensions and the index has {self._dimension}; "
                    "use the encoder that built the index."
                )
            self._known.update(zip(part, vectors, strict=True))
        return np.array([self._known[id_] for id_ in ids.tolist()], dtype=np.float32).reshape(-1, self._dimension)
