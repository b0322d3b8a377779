"""Vectors of an index that is being built; after an interruption, encoding continues from them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.support.resumable import PartialFolder, whole_lines, write_through


class PartialVectors(PartialFolder):
    """A folder with the docids and vectors of the documents encoded so far, written chunk by chunk.

    Args:
        folder: created if it does not exist.
        settings: everything that the vectors depend on. It must have `documents` (how many), `dimension` and `chunk`
            (documents per chunk).
    """

    FILES = ("vectors",)
    SIZES = ("dimension", "chunk", "documents")

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._dimension: int = settings["dimension"]
        super().__init__(folder, settings)

    def append(self, docids: Sequence[str], vectors: np.ndarray) -> None:
        """Add a chunk of docids [n] and vectors float32 [n, d]; they are on disk when this returns."""
        if vectors.shape != (len(docids), self._dimension) or vectors.dtype != np.float32:
            raise ValueError(f"{vectors.dtype} {vectors.shape} is not a chunk of {len(docids)} vectors")
        # The docids are written last: a vector without a docid is ignored when work continues.
        write_through(self._files["vectors"], np.ascontiguousarray(vectors).tobytes())
        write_through(self._docids, "".join(f"{docid}\n" for docid in docids).encode())
        self.done += len(docids)

    def vectors(self) -> np.ndarray:
        """All vectors so far, float32 [done, d], memory-mapped."""
        return np.memmap(self.folder / "vectors", dtype=np.float32, mode="r", shape=(self.done, self._dimension))

    def _keep_whole_chunks(self, *, dimension: int, chunk: int, documents: int) -> int:  # type: ignore[override]
        row = 4 * dimension
        vectors = self._files["vectors"]
        lengths = [len(line) for line in whole_lines(self._docids)]
        done = min(len(lengths), os.fstat(vectors.fileno()).st_size // row)
        if done != documents:
            done -= done % chunk
        self._docids.truncate(sum(lengths[:done]))
        vectors.truncate(done * row)
        return done
