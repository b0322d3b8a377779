"""Opening a FaissSearcher from a folder or the name of a prebuilt index, with clear errors."""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.support.java import ensure_java


def open_searcher(index: str | os.PathLike[str], encoder: Any, *, ef_search: int | None = None) -> Any:
    """Pyserini's FaissSearcher on an index folder, or on a prebuilt index that Pyserini downloads.

    Args:
        index: a folder with `index` and `docid`, or a name from Pyserini's list.
        encoder: a Pyserini query encoder.
        ef_search: efSearch of an HNSW index.
    """
    ensure_java()
    folder = Path(index)
    searcher = _from_folder(folder, encoder) if folder.exists() else _prebuilt(str(index), encoder)
    if ef_search is not None:
        _set_ef_search(searcher, ef_search, str(index))
    return searcher


def _from_folder(folder: Path, encoder: Any) -> Any:
    from pyserini.search.faiss import FaissSearcher

    for name in ("index", "docid"):
        if not (folder / name).is_file():
            raise TourError(
                f"{folder} is not a FAISS index of Pyserini's: it has no file `{name}`; "
                "build one with python -m tour_pyserini.index."
            )
    try:
        return FaissSearcher(str(folder), encoder)
    except AssertionError:
        raise TourError(
            f"{folder} is damaged: `docid` has not one line per vector of `index`; build it again."
        ) from None
    except (RuntimeError, OSError, UnicodeDecodeError) as error:
        raise TourError(f"{folder / 'index'} cannot be read as a FAISS index; build it again.") from error


def _prebuilt(name: str, encoder: Any) -> Any:
    from pyserini.search.faiss import FaissSearcher

    said = io.StringIO()
    try:
        # Pyserini prints errors and returns None.
        with contextlib.redirect_stdout(said):
            searcher = FaissSearcher.from_prebuilt_index(name, encoder)
    except Exception as error:
        raise TourError(f"the prebuilt index {name!r} is unavailable: {error}.") from error
    if searcher is None:
        raise TourError(
            f"there is no index folder {name!r}, and no prebuilt index of that name is available; "
            "build one with python -m tour_pyserini.index."
        )
    return searcher


def _set_ef_search(searcher: Any, ef_search: int, name: str) -> None:
    import faiss

    inner = faiss.downcast_index(searcher.index)
    if not hasattr(inner, "hnsw"):
        raise TourError(f"--ef-search is for HNSW indexes and {name} is {type(inner).__name__}; leave it out.")
    inner.hnsw.efSearch = ef_search
