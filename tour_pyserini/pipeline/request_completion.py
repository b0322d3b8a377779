"""A search request with what was not given filled in, and its inputs checked before anything is loaded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tour_pyserini.core.config import DEFAULT_METHOD
from tour_pyserini.data import demo_collection
from tour_pyserini.data.records import predictions_path
from tour_pyserini.data.texts import check_texts
from tour_pyserini.encoders.query_adapter import read_adapter
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.index import is_phrase_index
from tour_pyserini.pipeline.indexing import demo_index
from tour_pyserini.pipeline.search_request import NO_SIGNAL, OWN_BM25, SearchRequest
from tour_pyserini.searchers.opening import check_index
from tour_pyserini.stores.bm25_index import has_bm25
from tour_pyserini.stores.engines.store_address import store_address
from tour_pyserini.stores.signals import check_signal


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
    if request.config.most_labels and not request.corpus and not store_address(request.index):
        raise TourError(f"--corpus is missing: the method {method} reads the passages it labels.")
    if not phrases:
        request = replace(request, sparse=sparse_signals(request))
        if "signal_weight" in request.config.changed() and not request.has_signals:
            raise TourError("--signal-weight changes nothing without --sparse or --index2; leave it out.")
    output = request.output or f"runs/{name}.{method}.trec"
    predictions = request.predictions or (str(predictions_path(output)) if phrases else None)
    return replace(request, output=output, predictions=predictions)


def sparse_signals(request: SearchRequest) -> tuple[Any, ...]:
    """What `--sparse` stands for: the index itself, nothing, or what is named.

    Where it says nothing and there is no other signal, the default method uses the BM25 index that is beside the
    vectors; the others are what their papers say.
    """
    index = str(request.index)
    if request.sparse == (NO_SIGNAL,):
        return ()
    if request.sparse or request.index2:
        return tuple(index if spec == OWN_BM25 else spec for spec in request.sparse)
    return (index,) if request.config.method == DEFAULT_METHOD and has_bm25(Path(index)) else ()


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
