"""Write a FAISS index so that a full disk is an error: FAISS itself does not notice it when it closes a file."""

from pathlib import Path
from typing import Any

_BLOCK = 1 << 20  # bytes


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
                rest = memoryview(content)
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError as error:
                failures.append(error)
                raise

        try:
            faiss.write_index(index, faiss.PyCallbackIOWriter(write, _BLOCK))  # type: ignore[attr-defined]
        except Exception:
            if failures:  # FAISS replaces it by an error without the system's reason
                raise failures[0] from None
            raise
