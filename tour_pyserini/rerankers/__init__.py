"""Re-rankers: cross-encoders that score (query, passage) pairs, and the score cache that can wrap any of them."""

from tour_pyserini.rerankers.loading import (
    load_reranker,
    load_reranker_later,
    register_reranker_kind,
    verify_default_reranker,
)
from tour_pyserini.rerankers.reranker import Reranker, score_pairs
from tour_pyserini.rerankers.score_cache import CachedReranker, SqliteScores

__all__ = [
    "CachedReranker",
    "Reranker",
    "SqliteScores",
    "load_reranker",
    "load_reranker_later",
    "register_reranker_kind",
    "score_pairs",
    "verify_default_reranker",
]
