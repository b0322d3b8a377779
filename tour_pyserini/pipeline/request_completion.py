"""A search request with what was not given filled in, and its inputs checked before anything is loaded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tour_pyserini.data import demo_collection
from tour_pyserini.data.records import predictions_path
from tour_pyserini.data.texts import check_texts
from tour_pyserini.encoders.query_adapter import read_adapter
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.indexing import demo_index
from tour_pyserini.pipeline.search_request import SearchRequest
from tour_pyserini.pipeline.signal_settings import NO_SIGNAL, OWN_BM25, changed_settings, check_signal_settings
from tour_pyserini.searchers.opening import check_index
from tour_pyserini.stores.bm25 import has_bm25
from tour_pyserini.stores.phrases.phrase_index import is_phrase_index
from tour_pyserini.stores.signals import check_signal
from tour_pyserini.stores.vector_database import store_address


def completed(request: SearchRequest) -> SearchRequest:
    """The request with what was not given filled in, and checked against its index.

    Topics `demo` bring the embedded collection; the output has a name from topics and method.
    """
    name = _run_name(request.topics)
    if request.topics == "demo":
        request = replace(
            request,
            topics=str(demo_collection.QUERIES),
            corpus=request.corpus or str(demo_collection.CORPUS),
            index=request.index or str(demo_index()),
        )
    if not request.index:
        raise TourError("--index is missing: give a FAISS index folder or the name of a prebuilt index.")
    phrases = is_phrase_index(request.index)
    request.check_index_kind(phrases=phrases)
    method = request.config.method
    if request.config.method_class.needs_labels and not request.corpus and not store_address(request.index):
        raise TourError(f"--corpus is missing: the method {method} reads the passages it labels.")
    if not phrases:
        _check_own_signals(request)
        request = replace(request, sparse=sparse_signals(request))
    output = request.output or f"runs/{name}.{method}.trec"
    predictions = request.predictions or (str(predictions_path(output)) if phrases else None)
    return replace(request, output=output, predictions=predictions)


def sparse_signals(request: SearchRequest) -> tuple[Any, ...]:
    """What `--sparse` stands for: the index itself, nothing, or what is named.

    Where it says nothing and there is no other signal, methods that keep their labels use the BM25 index that is beside
    the vectors; the others are what their papers say.
    """
    index = str(request.index)
    if request.sparse == (NO_SIGNAL,):
        return ()
    if request.sparse or request.index2:
        return tuple(index if spec == OWN_BM25 else spec for spec in request.sparse)
    return (index,) if request.config.method_class.keeps_labels and has_bm25(Path(index)) else ()


def _check_own_signals(request: SearchRequest) -> None:
    """Refuse settings that do not count, where the method decides by itself whether there is a further signal."""
    if request.has_signals:
        return
    signals = f"the BM25 index of {request.index}" if sparse_signals(request) else None
    changed = changed_settings(request.config)
    check_signal_settings(changed, request.config, signals=signals, hint=f", or --sparse {NO_SIGNAL}")


def check_inputs(request: SearchRequest) -> None:
    """Report an input that does not exist before anything is read or loaded."""
    assert request.index is not None
    if not is_phrase_index(request.index):
        check_index(request.index)
    if request.corpus:
        check_texts(request.corpus)
    for spec in request.sparse:
        if isinstance(spec, str):
            check_signal(spec)
    for index in request.index2:
        check_index(index)
    if request.adapter:
        read_adapter(request.adapter)


def _run_name(topics: str) -> str:
    """A run's name from its topics: `scifact` for scifact/queries.jsonl, `nq` for nq.tsv."""
    path = Path(topics)
    first, *others = path.name.split(".")[: -1 if path.suffix else None]
    return ".".join([path.resolve().parent.name if first in ("queries", "topics") else first, *others])
