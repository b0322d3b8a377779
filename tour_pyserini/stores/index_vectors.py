"""Reading vectors back from a FAISS index."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.errors import TourError

VectorLookup = Callable[[Ids], Floats]
"""A function from positions [m] in an index to vectors [m, d]."""

# FAISS classes that store vectors as they were added; all others compress them.
_EXACT = {"IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexHNSWFlat", "IndexIVFFlat"}


def stores_exactly(index: Any) -> bool:
    """Whether a FAISS index keeps its vectors as they were added, not compressed."""
    import faiss

    return type(faiss.downcast_index(index)).__name__ in _EXACT


class IndexVectors:
    """Looks up the vectors [m, d] at positions [m] of a FAISS index.

    Attributes:
        kind: name of the FAISS class.
        exact: whether the vectors are the same as those that were added, not compressed.
        readable: whether the index can give vectors back.
    """

    def __init__(self, index: Any) -> None:
        import faiss

        # `downcast_index` returns a view, so the original index must be kept alive.
        self._owner, self._index = index, faiss.downcast_index(index)
        self.kind = type(self._index).__name__
        self.exact = stores_exactly(index)
        inverted = faiss.try_extract_index_ivf(self._index)
        if inverted is not None:
            # An inverted file needs this map to find a vector by its position.
            try:
                inverted.make_direct_map()
            except RuntimeError:
                raise TourError("the index is damaged: it has ids outside its vectors; build it again.") from None
        self.readable = self._can_read()

    def __call__(self, ids: Ids) -> Floats:
        """The vectors at these positions."""
        return self._index.reconstruct_batch(np.ascontiguousarray(ids, dtype=np.int64))

    def _can_read(self) -> bool:
        try:
            self(np.zeros(1, dtype=np.int64))
        except RuntimeError:
            return False
        return True
