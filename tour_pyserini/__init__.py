"""TouR for Pyserini: test-time optimisation of query representations for dense retrieval.

Names are loaded when they are first used, so that `import tour_pyserini` is light. `FaissSearcher` is Pyserini's own:
taken from here, it comes with a Java that is ready for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig
    from tour_pyserini.data.texts import open_texts
    from tour_pyserini.encoders.encoder_loading import load_query_encoder
    from tour_pyserini.encoders.phrases.phrase_loading import load_phrase_encoder
    from tour_pyserini.errors import TourError
    from tour_pyserini.rerankers import CachedReranker, load_reranker
    from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
    from tour_pyserini.searchers.prf import TourPrf
    from tour_pyserini.searchers.query_encoder import TourQueryEncoder
    from tour_pyserini.searchers.searcher import FaissSearcher, TourSearcher
    from tour_pyserini.searchers.tour_phrase_searcher import TourPhraseSearcher
    from tour_pyserini.stores.phrases.phrase_index import open_phrase_index

_HOMES = {
    "PhraseSearcher": "searchers.phrase_searcher",
    "TourConfig": "core.config",
    "TourError": "errors",
    "TourPhraseSearcher": "searchers.tour_phrase_searcher",
    "TourPrf": "searchers.prf",
    "TourQueryEncoder": "searchers.query_encoder",
    "TourSearcher": "searchers.searcher",
    "FaissSearcher": "searchers.searcher",
    "CachedReranker": "rerankers",
    "load_phrase_encoder": "encoders.phrases.phrase_loading",
    "load_query_encoder": "encoders.encoder_loading",
    "load_reranker": "rerankers",
    "open_phrase_index": "stores.phrases.phrase_index",
    "open_texts": "data.texts",
}

__all__ = [
    "CachedReranker",
    "FaissSearcher",
    "PhraseSearcher",
    "TourConfig",
    "TourError",
    "TourPhraseSearcher",
    "TourPrf",
    "TourQueryEncoder",
    "TourSearcher",
    "load_phrase_encoder",
    "load_query_encoder",
    "load_reranker",
    "open_phrase_index",
    "open_texts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
