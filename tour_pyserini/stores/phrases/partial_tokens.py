"""Token vectors of a phrase index that is being built; after an interruption, encoding continues from them."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.token_rows import ROW, Rows
from tour_pyserini.support.resumable import PartialFolder, whole_lines, write_through


class PartialTokens(PartialFolder):
    """A folder with the docids of the passages encoded so far and the rows and vectors of their tokens.

    It is written chunk by chunk. Each line of the file `chunks` has the number of passages and of rows at the end of a
    chunk: what the other files have beyond the last line is incomplete.

    Args:
        folder: created if it does not exist.
        settings: everything that the vectors depend on. It must have `dimension`, `dtype` and `itemsize` (bytes of a
            number).

    Attributes:
        done: number of passages so far.
        count: number of rows so far.
    """

    FILES = ("vectors", "rows", "chunks")
    SIZES = ("dimension", "itemsize")

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._dimension, self._dtype = int(settings["dimension"]), np.dtype(settings["dtype"])
        self.count = 0
        super().__init__(folder, settings)

    def append(self, docids: Sequence[str], rows: Rows, vectors: Floats) -> None:
        """Add a chunk of passages with all their rows [r] and vectors [r, d]; they are on disk when this returns."""
        if vectors.shape != (len(rows), self._dimension) or vectors.dtype != self._dtype:
            raise ValueError(f"{vectors.dtype} {vectors.shape} are not the vectors of {len(rows)} tokens")
        write_through(self._files["vectors"], np.ascontiguousarray(vectors).tobytes())
        write_through(self._files["rows"], np.ascontiguousarray(rows).tobytes())
        write_through(self._docids, "".join(f"{docid}\n" for docid in docids).encode())
        self.done += len(docids)
        self.count += len(rows)
        write_through(self._files["chunks"], f"{json.dumps([self.done, self.count])}\n".encode())

    def vectors(self) -> Floats:
        """All vectors so far, [count, d], memory-mapped."""
        return np.memmap(self.folder / "vectors", dtype=self._dtype, mode="r", shape=(self.count, self._dimension))

    def _keep_whole_chunks(self, *, dimension: int, itemsize: int) -> int:  # type: ignore[override]
        lines, docids = whole_lines(self._files["chunks"]), whole_lines(self._docids)
        sizes = {name: os.fstat(self._files[name].fileno()).st_size for name in ("vectors", "rows")}
        done = 0
        while lines:
            done, self.count = json.loads(lines[-1])
            needed = {"vectors": self.count * dimension * itemsize, "rows": self.count * ROW.itemsize}
            if len(docids) >= done and all(sizes[name] >= needed[name] for name in needed):
                break
            lines.pop()
            done = self.count = 0
        self._docids.truncate(sum(map(len, docids[:done])))
        self._files["chunks"].truncate(sum(map(len, lines)))
        self._files["vectors"].truncate(self.count * dimension * itemsize)
        self._files["rows"].truncate(self.count * ROW.itemsize)
        return done
