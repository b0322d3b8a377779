"""Write a FAISS index so that a full disk is an error: FAISS itself does not notice it when it closes a file."""

from pathlib import Path
from typing import IO, Any

import numpy as np

_BLOCK = 1 << 20  # bytes
_ROWS = 65_536  # vectors that are written at a time


def write_faiss_index(index: Any, path: Path) -> None:
    """Write an index to a new file, with the bytes of `faiss.write_index`.

    Raises:
        OSError: if the disk is full.
    """
    import faiss

    failures: list[OSError] = []
    with open(path, "wb", buffering=0) as file:

        def write(content: bytes) -> None:
            try:
                _write_all(file, content)
            except OSError as error:
                failures.append(error)
                raise

        try:
            faiss.write_index(index, faiss.PyCallbackIOWriter(write, _BLOCK))  # type: ignore[attr-defined]
        except Exception:
            if failures:  # FAISS replaces it by an error without the system's reason
                raise failures[0] from None
            raise


def write_flat_index(vectors: np.ndarray, path: Path) -> None:
    """Write a flat index for inner products of vectors, float32 [n, d], without having them in memory.

    The file has the bytes that FAISS would write: the header of an empty index with another number of vectors, and
    the vectors.

    Raises:
        OSError: if the disk is full.
    """
    import faiss

    count, dimension = vectors.shape
    header = faiss.serialize_index(faiss.IndexFlatIP(dimension))
    # The number of vectors stands after four letters and the dimension; how many numbers follow, at the end.
    header[8:16].view("<i8")[0] = count
    header[-8:].view("<u8")[0] = count * dimension
    with open(path, "wb", buffering=0) as file:
        _write_all(file, header.tobytes())
        for start in range(0, count, _ROWS):
            _write_all(file, np.ascontiguousarray(vectors[start : start + _ROWS], dtype="<f4").tobytes())


def _write_all(file: IO[bytes], content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
