"""TouR behind FaissSearcher's interface."""

from tour_pyserini.searchers.tour_engine import TourEngine
from tour_pyserini.support.java import ensure_java

ensure_java()

from pyserini.search.faiss import DenseSearchResult, FaissSearcher, PrfDenseSearchResult  # noqa: E402

__all__ = ["DenseSearchResult", "FaissSearcher", "PrfDenseSearchResult", "TourSearcher"]


class TourSearcher(TourEngine, FaissSearcher):
    """A FaissSearcher whose queries are optimised at test time.

    It wraps a FaissSearcher and has its methods, signatures and results, so it can be used wherever one can. A query
    given as a vector has no text to label and is searched as it is.

    FaissSearcher's own constructor, which opens an index, is not called: every attribute of the wrapped searcher is
    used instead.

    Attributes:
        config: what it computes.
        costs: what it has cost so far.

    Example:
        searcher = TourSearcher(FaissSearcher("indexes/scifact", encoder), "default", "scifact/corpus.jsonl")
        hits = searcher.search("do statins prevent stroke", k=100)
    """

    hit_class = DenseSearchResult
    vector_hit_class = PrfDenseSearchResult
