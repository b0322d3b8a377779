"""TouR over an index, as a request describes it: models, index, signals, texts and vectors, opened.

What is optional (encoders, re-rankers, phrases, the trace) is imported only where the request asks for it.
"""

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.run_records import is_phrase_index
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.loading import encoder_fingerprint, load_document_encoder, load_query_encoder
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, QueryAdapter
from tour_pyserini.encoders.query_vectors import load_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.flags import flag_name
from tour_pyserini.search_request import QUERY_LENGTH, SearchRequest
from tour_pyserini.searchers.searched_index import DenseSignal, SearchedIndex, open_index
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.stores.filters import FieldTable
from tour_pyserini.stores.index_folder import IndexSettings, check_vectors
from tour_pyserini.stores.signals import RunSignal, open_signal
from tour_pyserini.stores.store import UnsearchedDocuments, as_store
from tour_pyserini.stores.vectors import EncodedCorpus
from tour_pyserini.support.files import query_cache, score_cache
from tour_pyserini.support.model_files import DEFAULT

log = logging.getLogger(__name__)


class _NoVectors:
    """The query encoder of documents without vectors."""

    def encode(self, *_: Any, **__: Any) -> Floats:
        return np.empty(0, dtype=np.float32)


class Opener:
    """Opens what searches need, and keeps it for the next search of the same process.

    Example:
        opener = Opener()
        search(SearchRequest(topics="demo"), opener=opener)
        search(SearchRequest(topics="demo", config=TourConfig("rerank")), opener=opener)  # models are loaded already
    """

    def __init__(self) -> None:
        """Start with nothing open."""
        self._opened: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    def open(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """`make(*args, **options)`, or what it returned for the same arguments before."""
        key = repr((make, [_key(arg) for arg in args], sorted((name, _key(value)) for name, value in options.items())))
        if key not in self._opened:
            # Arguments may be part of the key by their identity, so they are kept alive.
            self._opened[key] = (make(*args, **options), (*args, *options.values()))
        return self._opened[key][0]

    def reranker(self, request: SearchRequest, scores: Any = None) -> Any:
        """The re-ranker of a request, with the score cache unless `no_cache` is set.

        With the score cache, its model is loaded when a label is missing there. The cache is the request's, or
        `scores`. With Ray, workers open their own: this one only tells about it.
        """
        from tour_pyserini.rerankers.loading import load_reranker, load_reranker_later
        from tour_pyserini.rerankers.score_cache import CachedReranker

        same = ("device", "backend", "precision", "dtype", "instruction", "trust_remote_code")
        own = {name: getattr(request, f"reranker_{name}") for name in ("max_length", "threads", "prompt")}
        options = {**own, **{name: getattr(request, name) for name in same}}
        if request.no_cache and not request.ray:
            return self.open(load_reranker, request.reranker, **options)
        reranker = self.open(load_reranker_later, request.reranker, **options)
        if request.ray:
            return reranker
        return self.open(CachedReranker, reranker, scores or str(request.cache or score_cache()))

    def searcher(
        self, request: SearchRequest, reranker: Any, *, trace: IO[str] | None = None, predictions: IO[str] | None = None
    ) -> TourSearcher:
        """TouR over the index of a request, of passages or of phrases.

        Args:
            request: what to search, and how.
            reranker: where labels come from; None for methods that do not label.
            trace: where the lines of the trace go.
            predictions: where phrases go.
        """
        if is_phrase_index(request.index):
            return self._phrase_searcher(request, reranker, trace, predictions)
        # What is quick to open comes first: a mistake is reported before models are loaded.
        texts = self.open(open_texts, request.corpus) if request.corpus else None
        inner = self._searched_index(request) if request.index else self._listed_documents(request)
        texts = texts if texts is not None else getattr(inner.index, "texts", None)
        return TourSearcher(
            inner,
            reranker,
            texts,
            request.config,
            vectors=self._vectors(request, inner, texts) if request.index else None,
            signals=self._signals(request),
            remove_query=request.remove_query,
            min_relevance=request.min_relevance,
            observe=_observer(request, trace, inner.docids),
            filter=request.filter,
            fields=self.open(FieldTable, inner.docids, texts),  # read once for all settings
        )

    def check_runs(self, request: SearchRequest, topics: Iterable[Any]) -> None:
        """Refuse runs that have nothing for any of the topics: they are of other ones."""
        for path in request.run:
            if self.open(RunSignal, path).topics.isdisjoint(map(str, topics)):
                raise TourError(f"{path} has hits for none of the topics; give a run of these topics.")

    def encoder_fingerprint(self, request: SearchRequest) -> str:
        """What identifies the query encoder of a request: its model, and the options that change similarities."""
        options = encoder_options(request)
        changes = {name: options[name] for name in ("encoder_class", "pooling", "l2_norm", "truncate_dim")}
        changes |= {"query_prefix": request.query_prefix, "tokenizer": request.tokenizer}
        changes["adapter"] = QueryAdapter.read(request.adapter).fingerprint if request.adapter else None
        if request.vectors not in (None, "encode"):
            changes["vectors"] = "exact"  # a compressed index's hits then have other similarities
        given = [f"{name}={value!r}" for name, value in changes.items() if value is not None]
        trust = request.trust_remote_code
        return " ".join(
            [encoder_fingerprint(options["spec"], options["encoder_class"], trust_remote_code=trust), *given]
        )

    def _phrase_searcher(
        self, request: SearchRequest, reranker: Any, trace: IO[str] | None, predictions: IO[str] | None
    ) -> TourSearcher:
        # torch and transformers take seconds to start.
        from tour_pyserini.data.json_results import write_predictions
        from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder
        from tour_pyserini.phrases.phrase_index import open_phrase_index, read_settings
        from tour_pyserini.phrases.phrase_searcher import PhraseSearcher, TourPhraseSearcher
        from tour_pyserini.phrases.reranker_input import RerankerInput

        index, corpus = str(request.index), str(request.corpus)
        phrases = self.open(open_phrase_index, index, corpus=corpus, nprobe=request.nprobe)
        if request.encoded_queries:
            encoder = self.open(load_encoded_queries, request.encoded_queries)
        else:
            made = read_settings(index)
            models = {"device": request.device, "tokenizer": request.tokenizer}
            encoder = self.open(load_phrase_encoder, request.encoder or made["encoder"], **models)
            if not encoder.has_built(made):
                searched = request.encoder or "a changed version of it"
                log.warning("%s was built with %s and is searched with %s", index, made["encoder"], searched)
        inner = PhraseSearcher(phrases, encoder, self.open(open_texts, corpus), max_words=request.max_words or 10)
        read = {name: getattr(request, name) for name in ("context", "title", "separator")}
        return TourPhraseSearcher(
            inner,
            reranker,
            request.config,
            unit=request.unit or "phrase",
            reranker_input=RerankerInput.read(request.reranker, **read),
            observe=_observer(request, trace, inner.docids),
            predict=partial(write_predictions, predictions) if predictions else None,
        )

    def _searched_index(self, request: SearchRequest, *, flag: str = "--encoder") -> Any:
        """The request's index with its query encoder, which `flag` says."""
        effort = {"ef_search": request.ef_search, "nprobe": request.nprobe}
        inner = self.open(open_index, str(request.index), **effort)
        return replace(inner, query_encoder=self._query_encoder(request, flag=flag))

    def _listed_documents(self, request: SearchRequest) -> SearchedIndex:
        """The documents of the request's runs, or those with vectors; nothing but the runs finds any."""
        if request.vectors:
            inner = self._searched_index(replace(request, index=request.vectors, vectors=None))
            store = as_store(inner.index)
            return replace(inner, index=UnsearchedDocuments(store.size, store.fetch, dimension=store.dimension))
        runs = [self.open(RunSignal, path) for path in request.run]
        docids = list(dict.fromkeys(docid for run in runs for docid in run.documents))
        return SearchedIndex(UnsearchedDocuments(len(docids)), docids, _NoVectors())

    def _query_encoder(self, request: SearchRequest, *, flag: str) -> Any:
        if request.encoded_queries:
            return self.open(load_encoded_queries, request.encoded_queries)
        options = {
            **encoder_options(request, flag=flag),
            "query_prefix": request.query_prefix,
            "max_length": request.max_length or QUERY_LENGTH,
            "tokenizer": request.tokenizer,
        }
        encoder = self.open(load_query_encoder, cache=None if request.no_cache else str(query_cache()), **options)
        if not request.adapter:
            return encoder
        # Vectors are kept as the encoder gives them, and corrected after that: another adapter needs no encoding.
        return self.open(AdaptedQueryEncoder, encoder, request.adapter)

    def _signals(self, request: SearchRequest) -> list[Any]:
        """What finds candidates beside the index."""
        signals = [self.open(open_signal, spec) for spec in request.sparse]
        signals += [self.open(RunSignal, path) for path in request.run]
        for index, encoder in itertools.zip_longest(request.index2, request.encoder2):
            # Options of the first encoder say nothing of the second: its index tells how its passages were encoded.
            shared = ("topics", "encoder_backend", "device", "dtype", "trust_remote_code", "no_cache")
            options = {name: getattr(request, name) for name in shared}
            second = SearchRequest(index=index, encoder=encoder, **options)
            signals.append(DenseSignal(self._searched_index(second, flag="--encoder2"), name=index))
        return signals

    def _vectors(self, request: SearchRequest, inner: Any, texts: Any) -> Any:
        """Where candidate vectors come from, as `TourSearcher` takes it."""
        if request.vectors is None:
            return None
        index = str(request.index)
        if request.vectors != "encode":
            check_vectors(index, request.vectors)
            folder = Path(request.vectors)
            if folder.is_dir():
                return self.open(EncodedCorpus, folder, docids=inner.docids, dimension=inner.dimension)
            return request.vectors
        if texts is None:
            raise TourError("--corpus is missing: --vectors encode reads the passages it encodes.")
        from tour_pyserini.encoders.encoder import PassageVectors

        made = IndexSettings.read(index)
        built: dict[str, Any] = {"max_length": made.max_length, "fields": made.fields} if made else {}
        encode = self.open(
            load_document_encoder,
            prefix=made.prefix if made else None,
            precision=(made.precision if made else None) or "fp32",
            **encoder_options(request),
        )
        return PassageVectors(encode, docids=inner.docids, texts=texts, dimension=inner.dimension, **built)


def encoder_options(request: SearchRequest, *, flag: str = "--encoder") -> dict[str, Any]:
    """The encoder of a request, as `load_query_encoder` takes it: what was said, else what built the index.

    Forgetting the pooling that built an index gives vectors of the right size and the wrong meaning. An index may come
    from anyone: the encoder that it names is used without being asked for only if it is the default encoder, or a local
    folder with the recorded content. Messages name `flag`, by which the encoder is said.

    Raises:
        TourError: if the index's own encoder may not be used, or if an option contradicts what built the index.
    """
    index, trust = str(request.index), request.trust_remote_code
    said: dict[str, Any] = {name: getattr(request, name) for name in ("pooling", "l2_norm", "truncate_dim")}
    running = {"device": request.device, "dtype": request.dtype, "backend": request.encoder_backend}
    options = {"encoder_class": request.encoder_class, "trust_remote_code": trust, **running, **said}
    made = IndexSettings.read(index)
    if made is None:
        return {"spec": request.encoder or DEFAULT, **options}
    encoder_class = options["encoder_class"] = request.encoder_class or made.encoder_class
    if request.encoder is None and made.encoder != DEFAULT and not Path(made.encoder).is_dir():
        raise TourError(
            f"{index} was built with the encoder {made.encoder!r}, which is not a folder of this machine; "
            f"if you trust it, say {flag} {made.encoder}."
        )
    spec = request.encoder or made.encoder
    if made.fingerprint != encoder_fingerprint(spec, encoder_class, trust_remote_code=trust):
        if request.encoder is None and made.encoder != DEFAULT:
            raise TourError(
                f"the encoder {made.encoder} is not the one that {index} was built with: its files have changed; "
                f"say {flag} {made.encoder} to use it all the same, or build the index again."
            )
        log.warning("%s was built with %s and is searched with %s: do they belong together?", index, made.encoder, spec)
        return {"spec": spec, **options}
    for name, value in said.items():
        built = getattr(made, name)
        if value is not None and value != built and (built is not None or name == "truncate_dim"):
            flag = flag_name(name) if value is not False else flag_name(f"no_{name}")
            raise TourError(
                f"{index} was built with {name} {built}, which {flag} contradicts: its queries would be encoded "
                f"differently from its passages; leave {flag} out, or build the index again."
            )
    return {"spec": spec, **options, **{name: made.asked.get(name) for name in said}}


def _observer(request: SearchRequest, trace: IO[str] | None, docids: Any) -> Any:
    """What writes the trace; None without one."""
    if trace is None:
        return None
    from tour_pyserini.searchers.trace import Trace

    return Trace(trace, docids, vectors=request.trace_vectors)


def _key(value: Any) -> Any:
    return value if isinstance(value, str | Path | int | float | bool | None) else id(value)
