"""Encoded queries: a folder with the vectors of queries by their text.

`embedding.pkl` is Pyserini's file: a pickled data frame with the columns `text` and `embedding`. Nothing in it is run
(see `data.pickled_table`). `embedding.safetensors` holds the same numbers and texts in a format that cannot
run code; this package writes both, and reads the second one where it belongs to the first.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.pickled_table import read_pickled_table
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_replace, content_hash, sha256
from tour_pyserini.support.pyserini import ensure_java

FILE = "embedding.pkl"
SAFE_FILE = "embedding.safetensors"


class EncodedQueries:
    """A query encoder that looks up the vector of a query by its text."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table

    def encode(self, query: str, **_: Any) -> Any:
        """The vector [d] of a query."""
        return self._table[query]


def load_encoded_queries(spec: str | os.PathLike[str]) -> EncodedQueries:
    """Load encoded queries from a folder with `embedding.pkl`, or by a name that Pyserini can download."""
    folder = Path(spec)
    if not folder.exists():
        ensure_java()
        from pyserini.util import download_encoded_queries

        try:
            folder = Path(download_encoded_queries(str(spec)))
        except Exception as error:
            raise TourError(
                f"encoded queries not found: {spec} is not a folder, and Pyserini cannot download it: {error}."
            ) from error
    safe = folder / SAFE_FILE
    table = _read_safe(safe, folder / FILE) if safe.is_file() else None
    return EncodedQueries(_read_pickle(folder / FILE) if table is None else table)


def write_encoded_queries(
    folder: str | os.PathLike[str], ids: Sequence[Any], texts: Sequence[str], vectors: Floats
) -> None:
    """Write vectors [n, d] to a folder that `python -m pyserini.search.faiss --encoded-queries FOLDER` can read."""
    import pandas
    from safetensors.numpy import save_file

    frame = pandas.DataFrame({"id": list(ids), "text": list(texts), "embedding": list(vectors)})
    with atomic_replace(Path(folder) / FILE) as partial:
        frame.to_pickle(partial, compression=None)
    names = {"ids": [str(id_) for id_ in ids], "texts": list(texts)}
    tensors = {name: np.frombuffer(json.dumps(values).encode(), dtype=np.uint8) for name, values in names.items()}
    tensors["vectors"] = np.ascontiguousarray(vectors, dtype=np.float32)
    with atomic_replace(Path(folder) / SAFE_FILE) as partial:
        save_file(tensors, partial, metadata={FILE: sha256(Path(folder) / FILE)})


def _read_safe(path: Path, original: Path) -> dict[str, Any] | None:
    """The vectors by text; None if Pyserini's file beside it is another one than that it was written with."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            if original.is_file() and (file.metadata() or {}).get(FILE) != content_hash(original):
                return None
            matrix = file.get_tensor("vectors")
            texts = json.loads(file.get_tensor("texts").tobytes().decode())
        if matrix.ndim != 2 or not isinstance(texts, list) or len(texts) != len(matrix):
            raise ValueError("texts and vectors do not fit together")
        if matrix.dtype != np.float32 or not all(isinstance(text, str) for text in texts):
            raise ValueError("it has values of another type")
        return dict(zip(texts, matrix, strict=True))
    except (OSError, ValueError, TypeError, RecursionError, SafetensorError) as error:
        raise TourError(
            f"{path} cannot be read ({first_line(error)}); delete it, or write the queries again."
        ) from error


def read_query_table(folder: str | os.PathLike[str]) -> tuple[list[Any], list[str], list[Any]]:
    """The ids, texts and vectors that `write_encoded_queries` wrote, in their order."""
    columns = _read_columns(Path(folder) / FILE, "id", "text", "embedding")
    return columns["id"], columns["text"], columns["embedding"]


def _read_pickle(path: Path) -> dict[str, Any]:
    columns = _read_columns(path, "text", "embedding")
    return dict(zip(columns["text"], columns["embedding"], strict=True))


def _read_columns(path: Path, *names: str) -> dict[str, list[Any]]:
    try:
        columns = read_pickled_table(path)
        for name in names:
            if name not in columns:
                raise ValueError(f"it has no column {name!r}")
        for row, text in enumerate(columns["text"]):
            if not isinstance(text, str):
                raise ValueError(f"row {row} has no text")
        return {**columns, "embedding": _vectors(columns["embedding"])}
    except OSError as error:
        raise TourError(f"cannot read the encoded queries {path}: {error.strerror}.") from error
    except Exception as error:  # damaged and hostile pickles raise errors of many types
        raise TourError(f"{path} is not a table of encoded queries (text, embedding): {first_line(error)}.") from error


def _vectors(cells: Sequence[Any]) -> list[Floats]:
    """The vectors in cells, float32; a number is a vector of shape []. What several rows refer to is read once."""
    known: dict[int, Floats] = {}
    for row, cell in enumerate(cells):
        if id(cell) not in known:
            vector = np.asarray(cell)
            if vector.dtype.kind not in "fiub":
                raise ValueError(f"row {row} has no vector of numbers")
            known[id(cell)] = vector.astype(np.float32)
    return [known[id(cell)] for cell in cells]
