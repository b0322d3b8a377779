"""TouR over an index, as a request describes it: models, index, signals, texts and vectors, opened."""

import itertools
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from tour_pyserini.data.json_results import write_predictions
from tour_pyserini.data.records import is_phrase_index
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.encoder import PassageVectors
from tour_pyserini.encoders.loading import (
    encoder_fingerprint,
    load_document_encoder,
    load_query_encoder,
    needs_pooling,
)
from tour_pyserini.encoders.model_folder import DEFAULT
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, read_adapter
from tour_pyserini.encoders.query_vectors import load_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.flags import flag_name
from tour_pyserini.phrases.phrase_index import open_phrase_index, read_settings
from tour_pyserini.phrases.phrase_input import PhraseInput, read_phrase_input
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher, TourPhraseSearcher
from tour_pyserini.rerankers import CachedReranker, load_reranker, load_reranker_later
from tour_pyserini.rerankers.score_cache import ScoreStore
from tour_pyserini.search_request import QUERY_LENGTH, SearchRequest
from tour_pyserini.searchers.dense_signal import DenseSignal
from tour_pyserini.searchers.searched_index import open_index, open_searcher
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.searchers.trace import Trace
from tour_pyserini.stores.index_folder import IndexSettings, check_vectors, read_index_settings
from tour_pyserini.stores.signals import open_signal
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.stores.vectors import EncodedCorpus
from tour_pyserini.support.files import query_cache, score_cache


class Opener:
    """Opens what searches need, and keeps it for the next search of the same process.

    Example:
        opener = Opener()
        search(SearchRequest(topics="demo"), opener=opener)
        search(SearchRequest(topics="demo", config=TourConfig("rerank")), opener=opener)  # models are loaded already
    """

    def __init__(self, *, keep_query_vectors: bool = False) -> None:
        """Start with nothing open; with `keep_query_vectors`, no query is encoded twice."""
        self._keep_query_vectors = keep_query_vectors
        self._opened: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    def open(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """`make(*args, **options)`, or what it returned for the same arguments before."""
        key = repr((make, [_key(arg) for arg in args], sorted((name, _key(value)) for name, value in options.items())))
        if key not in self._opened:
            # Arguments may be part of the key by their identity, so they are kept alive.
            self._opened[key] = (make(*args, **options), (*args, *options.values()))
        return self._opened[key][0]

    def open_encoder(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The same for a query encoder."""
        encoder = self.open(make, *args, **options)
        return self.open(CachedQueryEncoder, encoder) if self._keep_query_vectors else encoder


class CachedQueryEncoder:
    """A query encoder that encodes each text once; everything else is the wrapped encoder's."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._vectors: dict[str, np.ndarray] = {}

    def encode(self, query: str, **options: Any) -> np.ndarray:
        """The vector [d] of a query."""
        key = repr((query, sorted(options.items())))
        if key not in self._vectors:
            self._vectors[key] = self._encoder.encode(query, **options)
        return self._vectors[key]

    def _encode_batch(self, queries: Sequence[str]) -> np.ndarray:
        """The vectors [n, d] of queries, where the wrapped encoder encodes several at once."""
        fresh = [query for query in dict.fromkeys(queries) if repr((query, [])) not in self._vectors]
        if fresh:
            vectors = self._encoder.encode_batch(fresh)
            self._vectors |= {repr((query, [])): vector for query, vector in zip(fresh, vectors, strict=True)}
        return np.stack([self._vectors[repr((query, []))] for query in queries])

    def __getattr__(self, name: str) -> Any:
        if name == "_encoder":  # an object being copied has no attribute yet
            raise AttributeError(name)
        inner = getattr(self._encoder, name)
        return self._encode_batch if name == "encode_batch" else inner


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else id(value)


log = logging.getLogger(__name__)


def encoder_options(
    index: str | os.PathLike[str],
    encoder: str | None,
    *,
    encoder_class: str | None = None,
    pooling: str | None = None,
    l2_norm: bool | None = None,
    truncate_dim: int | None = None,
    trust_remote_code: bool = False,
    flag: str = "--encoder",
) -> dict[str, Any]:
    """The encoder of queries for an index, as `load_query_encoder` takes it: what was said, else what built the index.

    Forgetting the pooling that built an index gives vectors of the right size and the wrong meaning. An index may come
    from anyone: the encoder that it names is used without being asked for only if it is the default encoder, or a local
    folder with the recorded content. Messages name `flag`, by which the encoder is said.

    Raises:
        TourError: if the index's own encoder may not be used, or if an option contradicts what built the index.
    """
    said = {"pooling": pooling, "l2_norm": l2_norm, "truncate_dim": truncate_dim}
    made = read_index_settings(index)
    if made is None:
        return {"spec": encoder or DEFAULT, "encoder_class": encoder_class, **said}
    encoder_class = encoder_class or made.encoder_class
    if encoder is None and made.encoder != DEFAULT and not Path(made.encoder).is_dir():
        raise TourError(
            f"{index} was built with the encoder {made.encoder!r}, which is not a folder of this machine; "
            f"if you trust it, say {flag} {made.encoder}."
        )
    spec = encoder or made.encoder
    found = encoder_fingerprint(spec, encoder_class, trust_remote_code=trust_remote_code)
    # Older records hold the name of an encoder on the model hub; it proves nothing about the content of a folder.
    same = made.fingerprint == found or (encoder is not None and made.fingerprint == encoder)
    if not same and encoder is None and made.encoder != DEFAULT:
        raise TourError(
            f"the encoder {made.encoder} is not the one that {index} was built with: its files have changed; "
            f"say {flag} {made.encoder} to use it all the same, or build the index again."
        )
    if not same:
        log.warning("%s was built with %s and is searched with %s: do they belong together?", index, made.encoder, spec)
        return {"spec": spec, "encoder_class": encoder_class, **said}
    _refuse_contradictions(index, made, said)
    asked = {name: made.asked.get(name) for name in said}
    if asked["pooling"] is None and needs_pooling(spec, encoder_class, trust_remote_code=trust_remote_code):
        asked["pooling"] = made.pooling  # an earlier version did not ask for it
    return {"spec": spec, "encoder_class": encoder_class, **asked}


def _refuse_contradictions(index: str | os.PathLike[str], made: IndexSettings, said: dict[str, Any]) -> None:
    for name, value in said.items():
        built = getattr(made, name)
        if value is not None and value != built and (built is not None or name == "truncate_dim"):
            flag = flag_name(name) if value is not False else flag_name(f"no_{name}")
            raise TourError(
                f"{index} was built with {name} {built}, which {flag} contradicts: its queries would be encoded "
                f"differently from its passages; leave {flag} out, or build the index again."
            )


def open_tour_searcher(
    request: SearchRequest,
    reranker: Any,
    *,
    trace: IO[str] | None = None,
    opener: Opener,
) -> TourSearcher:
    """TouR over a passage index, as the request describes it; what happens to each query goes to `trace`."""
    # What is quick to open comes first: a mistake is reported before models are loaded.
    texts = _texts(request, opener)
    inner = _searched_index(request, opener)
    texts = texts if texts is not None else getattr(inner.index, "texts", None)
    return TourSearcher(
        inner,
        reranker,
        texts,
        request.config,
        vectors=_vectors(request, inner, texts, opener),
        order=request.order,
        signals=_signals(request, opener),
        remove_query=request.remove_query,
        observe=Trace(trace, inner.docids, vectors=request.trace_vectors) if trace else None,
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
    cache = None if request.no_cache else str(query_cache())
    encoder = opener.open_encoder(load_query_encoder, cache=cache, **options)
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
    """Where candidate vectors come from, as `TourSearcher` takes it."""
    assert request.index is not None
    if request.vectors is None:
        return None
    if request.vectors != "encode":
        check_vectors(request.index, request.vectors)
        if Path(request.vectors).is_dir():
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


MAX_WORDS = 10


def tour_phrase_searcher(
    request: SearchRequest, reranker: Any, *, trace: IO[str] | None, predictions: IO[str] | None, opener: Opener
) -> TourPhraseSearcher:
    """TouR over phrases; predictions are written as queries are searched."""
    assert predictions is not None
    inner = phrase_searcher(request, opener)
    return TourPhraseSearcher(
        inner,
        reranker,
        request.config,
        unit=request.unit or "phrase",
        phrase_input=phrase_input(request),
        observe=Trace(trace, inner.docids, vectors=request.trace_vectors) if trace else None,
        predict=lambda qid, hits: write_predictions(predictions, qid, hits),
    )


def phrase_searcher(request: SearchRequest, opener: Opener) -> PhraseSearcher:
    """The searcher without TouR."""
    assert request.index is not None and request.corpus is not None
    return PhraseSearcher(
        opener.open(open_phrase_index, request.index, corpus=request.corpus, nprobe=request.nprobe),
        _encoder(request, opener),
        opener.open(open_texts, request.corpus),
        max_words=request.max_words or MAX_WORDS,
    )


def phrase_input(request: SearchRequest) -> PhraseInput:
    """What the re-ranker reads of a phrase."""
    return read_phrase_input(
        request.reranker, context=request.context, title=request.title, separator=request.separator
    )


def _encoder(request: SearchRequest, opener: Opener) -> Any:
    assert request.index is not None
    if request.encoded_queries:
        from tour_pyserini.encoders.query_vectors import load_encoded_queries

        return opener.open(load_encoded_queries, request.encoded_queries)
    # torch and transformers take seconds to start.
    from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder

    made = read_settings(request.index)
    encoder = opener.open_encoder(
        load_phrase_encoder, request.encoder or made["encoder"], device=request.device, tokenizer=request.tokenizer
    )
    if not encoder.has_built(made):
        searched = request.encoder or "a changed version of it"
        log.warning("%s was built with %s and is searched with %s", request.index, made["encoder"], searched)
    return encoder


def open_worker_searcher(
    request: SearchRequest,
    trace: IO[str] | None,
    predictions: IO[str] | None,
    scores: ScoreStore | None,
) -> TourSearcher:
    """TouR in a worker of a Ray cluster."""
    opener = Opener()
    reranker = open_reranker(request, opener, scores) if request.config.most_labels else None
    return open_request_searcher(request, reranker, trace, predictions, opener)


def open_request_searcher(
    request: SearchRequest,
    reranker: Any,
    trace: IO[str] | None,
    predictions: IO[str] | None,
    opener: Opener,
) -> TourSearcher:
    """TouR over the index of a request, of passages or of phrases."""
    assert request.index is not None
    if is_phrase_index(request.index):
        return tour_phrase_searcher(request, reranker, trace=trace, predictions=predictions, opener=opener)
    return open_tour_searcher(request, reranker, trace=trace, opener=opener)
