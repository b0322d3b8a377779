"""Vectors reconstructed from the FAISS index that is searched."""

from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids

# What stores vectors as they were added; every other kind compresses them.
_EXACT = {"IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexHNSWFlat", "IndexIVFFlat"}


class IndexVectors:
    """Positions [m] to vectors [m, d].

    Attributes:
        kind: the name of FAISS's class.
        exact: whether vectors come back as they were added.
        readable: whether they come back at all.
    """

    def __init__(self, index: Any) -> None:
        import faiss

        # The downcast index is a view: it must not outlive the one it was made from.
        self._owner, self._index = index, faiss.downcast_index(index)
        self.kind = type(self._index).__name__
        self.exact = self.kind in _EXACT
        inverted = faiss.try_extract_index_ivf(self._index)
        if inverted is not None:
            # Without a map from position to list, an inverted file cannot find a vector by its position.
            inverted.make_direct_map()
        self.readable = self._try()

    def __call__(self, ids: Ids) -> Floats:
        """The vectors at these positions."""
        return self._index.reconstruct_batch(np.ascontiguousarray(ids, dtype=np.int64))

    def _try(self) -> bool:
        try:
            self(np.zeros(1, dtype=np.int64))
        except RuntimeError:
            return False
        return True
