"""Pyserini's FaissSearcher with a Java that is ready for it, and TouR as one."""

from dataclasses import dataclass

from tour_pyserini.searchers.hits import HitWithText
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.support.java import ensure_java

ensure_java()

from pyserini.search.faiss import DenseSearchResult, FaissSearcher, PrfDenseSearchResult  # noqa: E402

__all__ = ["FaissSearcher", "TourFaissSearcher"]


@dataclass(eq=False)
class _Hit(HitWithText, DenseSearchResult):
    """Pyserini's hit, with the passage's text."""


@dataclass(eq=False)
class _VectorHit(HitWithText, PrfDenseSearchResult):
    """Pyserini's hit with its vector, and with the passage's text."""


class TourFaissSearcher(TourSearcher, FaissSearcher):
    """What `TourSearcher` makes of a FaissSearcher: the same, and a FaissSearcher itself.

    FaissSearcher's own constructor, which opens an index, is not called: every attribute of the wrapped searcher is
    used instead.
    """

    hit_class = _Hit
    vector_hit_class = _VectorHit
