"""Pyserini's encoded queries: a folder with `embedding.pkl`, read without trusting it, and written."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.core.candidates import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import replaced_whole
from tour_pyserini.support.java import ensure_java

FILE = "embedding.pkl"

# What a pickled data frame of ids, texts and vectors is made of, in old and new versions of pandas and NumPy.
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
    """A query encoder that looks vectors up by the query's text."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table

    def encode(self, query: str, **_: Any) -> Any:
        """The vector [d] of a query."""
        return self._table[query]


def load_encoded_queries(spec: str | os.PathLike[str]) -> EncodedQueries:
    """Encoded queries from a folder with `embedding.pkl`, or by one of Pyserini's names."""
    ensure_java()
    from pyserini.util import download_encoded_queries

    folder = Path(spec)
    if not folder.exists():
        try:
            folder = Path(download_encoded_queries(str(spec)))
        except Exception as error:
            raise TourError(
                f"there is no folder of encoded queries {spec}, and Pyserini has none to offer: {error}."
            ) from error
    return EncodedQueries(_read(folder / FILE))


def write_encoded_queries(
    folder: str | os.PathLike[str], ids: Sequence[Any], texts: Sequence[str], vectors: Floats
) -> None:
    """Write vectors [n, d] where `python -m pyserini.search.faiss --encoded-queries FOLDER` reads them."""
    import pandas

    frame = pandas.DataFrame({"id": list(ids), "text": list(texts), "embedding": list(vectors)})
    with replaced_whole(Path(folder) / FILE) as partial:
        frame.to_pickle(partial, compression=None)


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            frame = _unpickler()(file).load()
        return dict(zip(frame["text"].tolist(), frame["embedding"].tolist(), strict=True))
    except OSError as error:
        raise TourError(f"cannot read the encoded queries {path}: {error.strerror}.") from error
    except TourError as error:
        raise TourError(f"{path} {error}") from error
    except Exception as error:
        raise TourError(f"{path} is not a table of encoded queries (text, embedding): {error}.") from error


def _unpickler() -> Any:
    from pandas.compat.pickle_compat import Unpickler

    class Guarded(Unpickler):
        """Builds tables of texts and numbers and refuses to touch anything else."""

        def find_class(self, module: str, name: str) -> Any:
            if name not in _ALLOWED.get(module, ()):
                raise TourError(f"asks for {module}.{name}, which no table of vectors needs; it is not opened.")
            return super().find_class(module, name)

    return Guarded
