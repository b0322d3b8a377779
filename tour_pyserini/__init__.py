"""TouR for Pyserini: test-time optimisation of query representations for dense retrieval.

Names are loaded when they are first used, so that `import tour_pyserini` is light. `FaissSearcher` is Pyserini's own:
imported from here, it comes with a Java that is ready for it. Each command is a module with a request and a function:
`tour_pyserini.search` has `search(SearchRequest(...))`, `tour_pyserini.index` has `build_index(IndexRequest(...))`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig as TourConfig
    from tour_pyserini.core.method import Method as Method
    from tour_pyserini.core.method import method as method
    from tour_pyserini.core.method import register_method as register_method
    from tour_pyserini.data.runs import register_run_format as register_run_format
    from tour_pyserini.data.texts import open_texts as open_texts
    from tour_pyserini.encoders.loading import load_document_encoder as load_document_encoder
    from tour_pyserini.encoders.loading import load_query_encoder as load_query_encoder
    from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder as AdaptedQueryEncoder
    from tour_pyserini.errors import TourError as TourError
    from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder as load_phrase_encoder
    from tour_pyserini.phrases.phrase_index import open_phrase_index as open_phrase_index
    from tour_pyserini.phrases.phrase_searcher import PhraseSearcher as PhraseSearcher
    from tour_pyserini.phrases.phrase_searcher import TourPhraseSearcher as TourPhraseSearcher
    from tour_pyserini.rerankers.loading import load_reranker as load_reranker
    from tour_pyserini.rerankers.loading import register_reranker_kind as register_reranker_kind
    from tour_pyserini.rerankers.reranker import Reranker as Reranker
    from tour_pyserini.rerankers.score_cache import CachedReranker as CachedReranker
    from tour_pyserini.searchers.list_reranker import TourReranker as TourReranker
    from tour_pyserini.searchers.pyserini_interfaces import FaissSearcher as FaissSearcher
    from tour_pyserini.searchers.pyserini_interfaces import TourPrf as TourPrf
    from tour_pyserini.searchers.pyserini_interfaces import TourQueryEncoder as TourQueryEncoder
    from tour_pyserini.searchers.search_path import SearchPath as SearchPath
    from tour_pyserini.searchers.search_path import search_path as search_path
    from tour_pyserini.searchers.searched_index import open_index as open_index
    from tour_pyserini.searchers.searcher import TourSearcher as TourSearcher
    from tour_pyserini.stores.signals import QuerySignal as QuerySignal
    from tour_pyserini.stores.vectors import register_vector_source as register_vector_source
    from tour_pyserini.support.costs import Costs as Costs

    __version__: str

_NAMES = {
    "core.config": ("TourConfig",),
    "core.method": ("Method", "method", "register_method"),
    "data.runs": ("register_run_format",),
    "data.texts": ("open_texts",),
    "encoders.loading": ("load_document_encoder", "load_query_encoder"),
    "encoders.query_adapter": ("AdaptedQueryEncoder",),
    "errors": ("TourError",),
    "phrases.phrase_encoder": ("load_phrase_encoder",),
    "phrases.phrase_index": ("open_phrase_index",),
    "phrases.phrase_searcher": ("PhraseSearcher", "TourPhraseSearcher"),
    "rerankers.loading": ("load_reranker", "register_reranker_kind"),
    "rerankers.reranker": ("Reranker",),
    "rerankers.score_cache": ("CachedReranker",),
    "searchers.list_reranker": ("TourReranker",),
    "searchers.pyserini_interfaces": ("FaissSearcher", "TourPrf", "TourQueryEncoder"),
    "searchers.search_path": ("SearchPath", "search_path"),
    "searchers.searched_index": ("open_index",),
    "searchers.searcher": ("TourSearcher",),
    "stores.signals": ("QuerySignal",),
    "stores.vectors": ("register_vector_source",),
    "support.costs": ("Costs",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    from importlib import metadata  # takes longer to load than this module

    try:
        return metadata.version(__name__)
    except metadata.PackageNotFoundError:
        return "0+unknown"
