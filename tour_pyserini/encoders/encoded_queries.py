"""Pyserini's encoded queries: reading and writing a folder with `embedding.pkl`.

A pickle file can run code when it is read. Only the classes that a table of vectors consists of are accepted.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.core.candidates import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace
from tour_pyserini.support.java import ensure_java

FILE = "embedding.pkl"

# The names that a pickled data frame of ids, texts and vectors refers to, in old and new versions of pandas and NumPy.
_ALLOWED = {
    "pandas": {"DataFrame", "Index", "RangeIndex", "StringDtype"},
    "pandas.core.frame": {"DataFrame"},
    "pandas.core.internals.managers": {"BlockManager"},
    "pandas.core.internals.blocks": {"new_block"},
    "pandas._libs.internals": {"_unpickle_block"},
    "pandas.core.indexes.base": {"_new_Index", "Index"},
    "pandas.core.indexes.range": {"RangeIndex"},
    "pandas.core.indexes.numeric": {"Int64Index"},
    "pandas.arrays": {"ArrowStringArray", "StringArray"},
    "pandas.core.arrays.string_": {"StringDtype", "StringArray"},
    "pyarrow.lib": {"_restore_array", "type_for_alias", "py_buffer"},
    "numpy": {"ndarray", "dtype"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.numeric": {"_frombuffer"},
    "builtins": {"slice"},
    "_codecs": {"encode"},
}


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
    return EncodedQueries(_read(folder / FILE))


def write_encoded_queries(
    folder: str | os.PathLike[str], ids: Sequence[Any], texts: Sequence[str], vectors: Floats
) -> None:
    """Write vectors [n, d] to a folder that `python -m pyserini.search.faiss --encoded-queries FOLDER` can read."""
    import pandas

    frame = pandas.DataFrame({"id": list(ids), "text": list(texts), "embedding": list(vectors)})
    with atomic_replace(Path(folder) / FILE) as partial:
        frame.to_pickle(partial, compression=None)


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            frame = _safe_unpickler()(file).load()
        return dict(zip(frame["text"].tolist(), frame["embedding"].tolist(), strict=True))
    except OSError as error:
        raise TourError(f"cannot read the encoded queries {path}: {error.strerror}.") from error
    except TourError as error:
        raise TourError(f"{path} {error}") from error
    except Exception as error:
        raise TourError(f"{path} is not a table of encoded queries (text, embedding): {error}.") from error


def _safe_unpickler() -> Any:
    from pandas.compat.pickle_compat import Unpickler

    class SafeUnpickler(Unpickler):
        """Unpickles tables of texts and numbers and refuses everything else."""

        def find_class(self, module: str, name: str) -> Any:
            if name not in _ALLOWED.get(module, ()):
                raise TourError(f"asks for {module}.{name}, which no table of vectors needs; the file is not read.")
            return super().find_class(module, name)

    return SafeUnpickler
