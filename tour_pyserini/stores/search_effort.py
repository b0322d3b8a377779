"""How much of an approximate FAISS index a search looks at."""

from typing import Any

from tour_pyserini.errors import TourError


def set_search_effort(index: Any, name: str, *, ef_search: int | None = None, nprobe: int | None = None) -> None:
    """Change what the index was built with; None leaves it.

    Args:
        index: a FAISS index.
        name: of the index, for messages.
        ef_search: efSearch of an HNSW index.
        nprobe: lists of an inverted file that a query searches.

    Raises:
        TourError: if it is given for another kind of index.
    """
    import faiss

    inner = faiss.downcast_index(index)
    if ef_search is not None:
        if not hasattr(inner, "hnsw"):
            raise TourError(f"--ef-search is for HNSW indexes and {name} is {type(inner).__name__}; leave it out.")
        inner.hnsw.efSearch = ef_search
    if nprobe is not None:
        inverted = faiss.try_extract_index_ivf(inner)
        if inverted is None:
            raise TourError(f"--nprobe is for inverted files and {name} is {type(inner).__name__}; leave it out.")
        inverted.nprobe = nprobe
