"""Where labels come from: cross-encoders that score (query, passage) pairs, and the cache that wraps any of them."""

from tour_pyserini.rerankers.default_reranker import default_reranker_folder, verify_default_reranker
from tour_pyserini.rerankers.reranker import Reranker, checked
from tour_pyserini.rerankers.reranker_loading import load_reranker
from tour_pyserini.rerankers.score_cache import CachedReranker
from tour_pyserini.rerankers.score_store import ScoreStore

__all__ = [
    "CachedReranker",
    "Reranker",
    "ScoreStore",
    "checked",
    "default_reranker_folder",
    "load_reranker",
    "verify_default_reranker",
]
