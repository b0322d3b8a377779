"""Open an index folder, or Pyserini's FaissSearcher on a folder or a prebuilt index, with clear error messages."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_index import set_search_effort
from tour_pyserini.stores.index_folder import read_index_files
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vector_collection import open_collection
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.support.java import ensure_java
from tour_pyserini.support.pyserini_names import may_be_prebuilt, open_prebuilt


@dataclass
class SearchedIndex:
    """An index with the names of its documents and the encoder of its queries, as `TourSearcher` needs them.

    Attributes:
        index: a FAISS index or another store.
        docids: the docid at each position of the index.
        query_encoder: anything with `encode(query)` that gives [d].
    """

    index: Any
    docids: Sequence[str]
    query_encoder: Any = None

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""
        return as_store(self.index).dimension

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return as_store(self.index).size


def check_index(index: str | os.PathLike[str]) -> None:
    """Refuse an index that does not exist, without importing FAISS or Pyserini.

    Args:
        index: a folder with `index` and `docid`, the address of a collection, or a name from Pyserini's list of
            prebuilt indexes.
    """
    folder = Path(index)
    if store_address(index):
        return  # it is asked for the collection when it is opened
    if not folder.exists():
        if isinstance(index, os.PathLike) or not may_be_prebuilt(str(index)):
            raise _no_index(str(index))
        return
    for name in ("index", "docid"):
        if not (folder / name).is_file():
            raise TourError(
                f"{folder} is not a FAISS index of Pyserini's: it has no file `{name}`; "
                "build one with python -m tour_pyserini.index."
            )


def open_index(
    folder: str | os.PathLike[str], encoder: Any = None, *, ef_search: int | None = None, nprobe: int | None = None
) -> SearchedIndex:
    """Read an index folder: `index` is a FAISS index, `docid` has one docid per line. Pyserini is not imported.

    Args:
        folder: the index; or the address of a collection in a vector database.
        encoder: the query encoder.
        ef_search: efSearch of an HNSW index.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.
    """
    check_index(folder)
    if address := store_address(folder):
        if ef_search is not None:
            raise TourError(f"--ef-search is for FAISS indexes; write ef={ef_search} into the address {address}.")
        store = open_collection(address)
        return SearchedIndex(store, store.docids, encoder)
    index, docids = read_index_files(Path(folder), PASSAGE_INDEX)
    set_search_effort(index, str(folder), ef_search=ef_search, nprobe=nprobe)
    return SearchedIndex(index, docids, encoder)


def open_searcher(
    index: str | os.PathLike[str], encoder: Any, *, ef_search: int | None = None, nprobe: int | None = None
) -> Any:
    """Pyserini's FaissSearcher on an index folder, or on a prebuilt index that Pyserini downloads.

    Args:
        index: a folder with `index` and `docid`, or a name from Pyserini's list.
        encoder: a Pyserini query encoder.
        ef_search: efSearch of an HNSW index.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.
    """
    check_index(index)
    ensure_java()
    folder = Path(index)
    searcher = _from_folder(folder, encoder) if folder.exists() else _prebuilt(str(index), encoder)
    set_search_effort(searcher.index, str(index), ef_search=ef_search, nprobe=nprobe)
    return searcher


def _from_folder(folder: Path, encoder: Any) -> Any:
    from pyserini.search.faiss import FaissSearcher

    read_index_files(folder, PASSAGE_INDEX)  # Pyserini reads the files without a check
    return FaissSearcher(str(folder), encoder)


def _prebuilt(name: str, encoder: Any) -> Any:
    from pyserini.search.faiss import FaissSearcher

    searcher = open_prebuilt(name, lambda: FaissSearcher.from_prebuilt_index(name, encoder))
    if searcher is None:
        raise _no_index(name)
    return searcher


def _no_index(name: str) -> TourError:
    return TourError(
        f"index not found: there is no folder {name!r} and no prebuilt index with this name; "
        "build one with python -m tour_pyserini.index."
    )
