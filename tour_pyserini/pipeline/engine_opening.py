"""TouR over an index, as a request describes it: models, index, signals, texts and vectors, opened."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.document_vectors import PassageVectors
from tour_pyserini.encoders.encoded_queries import load_encoded_queries
from tour_pyserini.encoders.encoder_loading import (
    encoder_fingerprint,
    load_document_encoder,
    load_query_encoder,
    query_encoder_with_cache,
)
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, read_adapter
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.encoder_options import encoder_options
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.search_request import (
    QUERY_LENGTH,
    SearchRequest,
)
from tour_pyserini.rerankers import CachedReranker, load_reranker, load_reranker_later
from tour_pyserini.rerankers.score_cache import ScoreStore
from tour_pyserini.searchers.dense_signal import DenseSignal
from tour_pyserini.searchers.opening import open_index, open_searcher
from tour_pyserini.searchers.optimiser import Observer
from tour_pyserini.searchers.tour_engine import TourEngine
from tour_pyserini.searchers.trace import Trace
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.stores.engines.store_address import store_address
from tour_pyserini.stores.index_scales import IndexScale, find_scale, read_scales
from tour_pyserini.stores.index_settings import check_vectors, read_index_settings
from tour_pyserini.stores.signals import open_signal
from tour_pyserini.support.files import query_cache, score_cache


def tour_engine(
    request: SearchRequest,
    reranker: Any,
    *,
    scale: IndexScale | None = None,
    trace: IO[str] | None = None,
    observe: Observer | None = None,
    opener: Opener,
) -> TourEngine:
    """TouR over a passage index, as the request describes it; rounds go to `trace`, or to `observe`."""
    # What is quick to open comes first: a mistake is reported before models are loaded.
    texts = _texts(request, opener)
    inner = _searched_index(request, opener)
    texts = texts if texts is not None else getattr(inner.index, "texts", None)
    if trace:
        labelled = request.config.method_class.needs_labels
        observe = Trace(trace, inner.docids, labelled=labelled, vectors=request.trace_vectors)
    return TourEngine(
        inner,
        reranker,
        texts,
        request.config,
        vectors=_vectors(request, inner, texts, opener),
        order=request.order,
        signals=_signals(request, opener),
        remove_query=request.remove_query,
        scale=scale.scale if scale else None,
        observe=observe,
    )


def open_reranker(request: SearchRequest, opener: Opener, scores: ScoreStore | None = None) -> Any:
    """The re-ranker of a request, with the score cache unless `no_cache` is set.

    With the score cache, its model is loaded when a label is missing there. The cache is the request's, or `scores`.
    """
    if request.no_cache:
        return opener.open(load_reranker, request.reranker, **reranker_options(request))
    reranker = opener.open(load_reranker_later, request.reranker, **reranker_options(request))
    return opener.open(CachedReranker, reranker, scores or str(request.cache or score_cache()))


def reranker_options(request: SearchRequest) -> dict[str, Any]:
    """How the re-ranker is run, as `load_reranker` takes it."""
    return {
        "max_length": request.reranker_max_length,
        "device": request.device,
        "threads": request.reranker_threads,
        "backend": request.backend,
        "precision": request.precision,
        "dtype": request.dtype,
        "prompt": request.reranker_prompt,
        "trust_remote_code": request.trust_remote_code,
    }


def stored_scale(request: SearchRequest, reranker: Any, opener: Opener) -> IndexScale | None:
    """The calibrated scale of the request's index and models, if there is one and the method asks for it."""
    fingerprint = getattr(reranker, "fingerprint", None)
    if not request.config.calibrates or not fingerprint or request.index is None or request.encoded_queries:
        return None
    if request.has_signals:  # it is a scale of the index's similarities alone
        return None
    if not read_scales(request.index):  # most indexes have none, and a fingerprint takes time
        return None
    return find_scale(request.index, encoder=query_encoder_fingerprint(request, opener), reranker=fingerprint)


def query_encoder_fingerprint(request: SearchRequest, opener: Opener) -> str:
    """What identifies the query encoder of a request: its model, and the options that change similarities."""
    options = _encoder_options(request, opener)
    changes = {name: options[name] for name in ("encoder_class", "pooling", "l2_norm", "truncate_dim")}
    changes |= {"query_prefix": request.query_prefix, "tokenizer": request.tokenizer}
    changes["adapter"] = opener.open(read_adapter, request.adapter).fingerprint if request.adapter else None
    order = request.order or ("index" if request.vectors == "encode" else "exact")
    if request.vectors is not None and order == "exact":
        changes["vectors"] = "exact"  # a compressed index's hits then have other similarities
    given = [f"{name}={value!r}" for name, value in changes.items() if value is not None]
    identity = opener.open(
        encoder_fingerprint,
        options["spec"],
        options["encoder_class"],
        trust_remote_code=request.trust_remote_code,
    )
    return " ".join([identity, *given])


def _searched_index(request: SearchRequest, opener: Opener, *, flag: str = "--encoder") -> Any:
    """The request's index with its query encoder, which `flag` says."""
    assert request.index is not None
    if Path(request.index).exists() or store_address(request.index):
        inner = opener.open(open_index, request.index, ef_search=request.ef_search, nprobe=request.nprobe)
        return replace(inner, query_encoder=_query_encoder(request, opener, flag=flag))
    encoder = _query_encoder(request, opener, flag=flag)
    return opener.open(open_searcher, request.index, encoder, ef_search=request.ef_search, nprobe=request.nprobe)


def _signals(request: SearchRequest, opener: Opener) -> list[Any]:
    """What finds candidates beside the index."""
    signals = [opener.open(open_signal, spec) for spec in request.sparse]
    for index, encoder in itertools.zip_longest(request.index2, request.encoder2):
        # Options of the first encoder say nothing of the second: its index tells how its passages were encoded.
        second = SearchRequest(
            topics=request.topics,
            index=index,
            encoder=encoder,
            encoder_backend=request.encoder_backend,
            device=request.device,
            dtype=request.dtype,
            trust_remote_code=request.trust_remote_code,
            no_cache=request.no_cache,
        )
        signals.append(DenseSignal(_searched_index(second, opener, flag="--encoder2"), name=index))
    return signals


def _encoded_corpus(folder: str, *, docids: Sequence[str], dimension: int) -> EncodedCorpus:
    return EncodedCorpus.open(Path(folder), docids=docids, dimension=dimension)


def _texts(request: SearchRequest, opener: Opener) -> Any:
    return opener.open(open_texts, request.corpus) if request.corpus else None


def _query_encoder(request: SearchRequest, opener: Opener, *, flag: str) -> Any:
    if request.encoded_queries:
        return opener.open(load_encoded_queries, request.encoded_queries)
    options = {
        **_encoder_options(request, opener, flag=flag),
        "query_prefix": request.query_prefix,
        "max_length": request.max_length or QUERY_LENGTH,
        "tokenizer": request.tokenizer,
    }
    if request.no_cache:
        encoder = opener.open_encoder(load_query_encoder, **options)
    else:
        encoder = opener.open_encoder(query_encoder_with_cache, path=str(query_cache()), **options)
    # Vectors are kept as the encoder gives them, and corrected after that: another adapter needs no encoding.
    return opener.open(AdaptedQueryEncoder, encoder, request.adapter) if request.adapter else encoder


def _encoder_options(request: SearchRequest, opener: Opener, *, flag: str = "--encoder") -> dict[str, Any]:
    chosen = opener.open(
        encoder_options,
        request.index,
        request.encoder,
        encoder_class=request.encoder_class,
        pooling=request.pooling,
        l2_norm=request.l2_norm,
        truncate_dim=request.truncate_dim,
        trust_remote_code=request.trust_remote_code,
        flag=flag,
    )
    running = {"device": request.device, "dtype": request.dtype, "trust_remote_code": request.trust_remote_code}
    return {**chosen, **running, "backend": request.encoder_backend}


def _vectors(request: SearchRequest, inner: Any, texts: Any, opener: Opener) -> Any:
    """Where candidate vectors come from, as `TourEngine` takes it."""
    assert request.index is not None
    if request.vectors is None:
        return None
    if request.vectors != "encode":
        check_vectors(request.index, request.vectors)
        if Path(request.vectors).is_dir() and (request.order != "index" or request.config.rounds):
            return opener.open(_encoded_corpus, request.vectors, docids=inner.docids, dimension=inner.dimension)
        return request.vectors
    if texts is None:
        raise TourError("--corpus is missing: --vectors encode reads the passages it encodes.")
    made = read_index_settings(request.index)
    built: dict[str, Any] = {"max_length": made.max_length, "fields": made.fields} if made else {}
    encode = opener.open(
        load_document_encoder,
        prefix=made.prefix if made else None,
        precision=(made.precision if made else None) or "fp32",
        **_encoder_options(request, opener),
    )
    return PassageVectors(encode, docids=inner.docids, texts=texts, dimension=inner.dimension, **built)
