"""Where labels come from: cross-encoders that score (query, passage) pairs, and the cache that wraps any of them."""

from tour_pyserini.rerankers.base import Reranker, checked
from tour_pyserini.rerankers.cache import CachedReranker
from tour_pyserini.rerankers.default import default_reranker_folder, verify_default_reranker
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.rerankers.store import ScoreStore

__all__ = [
    "CachedReranker",
    "Reranker",
    "ScoreStore",
    "checked",
    "default_reranker_folder",
    "load_reranker",
    "verify_default_reranker",
]
