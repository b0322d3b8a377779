"""Vectors that survive an interruption."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.support.resumable import PartialFolder, whole_lines, write_through


class PartialVectors(PartialFolder):
    """The docids and vectors of the documents encoded so far, in a folder, chunk by chunk.

    Args:
        folder: made if it is not there.
        settings: everything the vectors depend on; `documents`, `dimension` and `chunk` (documents per chunk)
            are read here.
    """

    FILES = ("vectors",)
    SIZES = ("dimension", "chunk", "documents")

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._dimension: int = settings["dimension"]
        super().__init__(folder, settings)

    def append(self, docids: Sequence[str], vectors: np.ndarray) -> None:
        """Add a chunk: one docid for each row of float32 [n, d]. It is on the disk when this returns."""
        if vectors.shape != (len(docids), self._dimension) or vectors.dtype != np.float32:
            raise ValueError(f"{vectors.dtype} {vectors.shape} is no chunk of {len(docids)} vectors")
        # The docids last: a vector counts only once its docid is there.
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
