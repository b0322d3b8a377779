"""Re-rankers: cross-encoders that score (query, passage) pairs, and the score cache that can wrap any of them."""

from tour_pyserini.rerankers.default_reranker import default_reranker_folder, verify_default_reranker
from tour_pyserini.rerankers.lazy_reranker import load_reranker_later
from tour_pyserini.rerankers.reranker import Reranker, checked_scores
from tour_pyserini.rerankers.reranker_loading import RerankerKind, load_reranker, register_reranker_kind
from tour_pyserini.rerankers.score_cache import CachedReranker
from tour_pyserini.rerankers.score_store import ScoreStore

__all__ = [
    "CachedReranker",
    "Reranker",
    "RerankerKind",
    "ScoreStore",
    "checked_scores",
    "default_reranker_folder",
    "load_reranker",
    "load_reranker_later",
    "register_reranker_kind",
    "verify_default_reranker",
]
