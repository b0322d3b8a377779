"""Re-rankers that run elsewhere and are asked over HTTP: addresses, dialects, and the re-ranker that asks."""

from tour_pyserini.rerankers.remote.remote_loading import load_remote
from tour_pyserini.rerankers.remote.remote_reranker import RemoteReranker
from tour_pyserini.rerankers.remote.service_address import is_service_address

__all__ = ["RemoteReranker", "is_service_address", "load_remote"]
