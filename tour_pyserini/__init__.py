"""TouR for Pyserini: test-time optimisation of query representations for dense retrieval.

Names are loaded when they are first used, so that `import tour_pyserini` is light. `FaissSearcher` is Pyserini's own:
taken from here, it comes with a Java that is ready for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig
    from tour_pyserini.errors import TourError
    from tour_pyserini.phrase_encoders import load_phrase_encoder
    from tour_pyserini.phrases.index import open_phrase_index
    from tour_pyserini.phrases.searcher import PhraseSearcher
    from tour_pyserini.plugs.encoders import load_query_encoder
    from tour_pyserini.plugs.phrase_searcher import TourPhraseSearcher
    from tour_pyserini.plugs.prf import TourPrf
    from tour_pyserini.plugs.query_encoder import TourQueryEncoder
    from tour_pyserini.plugs.searcher import FaissSearcher, TourSearcher
    from tour_pyserini.rerankers import CachedReranker, load_reranker
    from tour_pyserini.texts import open_texts

_HOMES = {
    "PhraseSearcher": "phrases.searcher",
    "TourConfig": "core.config",
    "TourError": "errors",
    "TourPhraseSearcher": "plugs.phrase_searcher",
    "TourPrf": "plugs.prf",
    "TourQueryEncoder": "plugs.query_encoder",
    "TourSearcher": "plugs.searcher",
    "FaissSearcher": "plugs.searcher",
    "CachedReranker": "rerankers",
    "load_phrase_encoder": "phrase_encoders",
    "load_query_encoder": "plugs.encoders",
    "load_reranker": "rerankers",
    "open_phrase_index": "phrases.index",
    "open_texts": "texts",
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
