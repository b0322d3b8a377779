"""Searching topics: from a request to a run file with its record."""

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data import demo_collection
from tour_pyserini.data.qrels_file import read_qrels
from tour_pyserini.data.records import predictions_path, write_record
from tour_pyserini.data.runs import write_run
from tour_pyserini.data.texts import check_texts, open_texts
from tour_pyserini.data.topics import judged_only, read_topics
from tour_pyserini.encoders.document_vectors import PassageVectors
from tour_pyserini.encoders.encoded_queries import load_encoded_queries, write_encoded_queries
from tour_pyserini.encoders.encoder_loading import (
    encoder_fingerprint,
    load_document_encoder,
    load_query_encoder,
    query_encoder_with_cache,
)
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, read_adapter
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.batches import Batch, search_topics
from tour_pyserini.pipeline.encoder_options import encoder_options
from tour_pyserini.pipeline.indexing import demo_index
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.phrase_searching import tour_phrase_searcher
from tour_pyserini.pipeline.progress import search_bar
from tour_pyserini.pipeline.ray_searching import RaySearcher, ray_searcher
from tour_pyserini.pipeline.request import flag_name, words
from tour_pyserini.pipeline.search_request import (
    NO_SIGNAL,
    OUTPUTS,
    OWN_BM25,
    QUERY_LENGTH,
    SIGNAL_SETTINGS,
    SearchRequest,
)
from tour_pyserini.pipeline.shards import Shard, whole_or_shard
from tour_pyserini.rerankers import CachedReranker, load_reranker, load_reranker_later
from tour_pyserini.rerankers.kept_scores import KeptScores
from tour_pyserini.rerankers.postgres_connection import without_password
from tour_pyserini.rerankers.remote import RemoteReranker
from tour_pyserini.searchers.dense_signal import DenseSignal
from tour_pyserini.searchers.opening import check_index, open_index, open_searcher
from tour_pyserini.searchers.tour_engine import Observer, TourEngine
from tour_pyserini.searchers.trace import Trace
from tour_pyserini.stores.bm25_index import has_bm25
from tour_pyserini.stores.engines.store_address import store_address
from tour_pyserini.stores.index_scales import IndexScale, find_scale, read_scales
from tour_pyserini.stores.index_settings import check_vectors, read_index_settings
from tour_pyserini.stores.phrases.phrase_index import is_phrase_index
from tour_pyserini.stores.signals import check_signal, open_signal, signal_files
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write, check_output, query_cache, score_cache


class RunSummary(NamedTuple):
    """What a search did.

    Attributes:
        output: the run file; its record is beside it.
        config: the method and its settings.
        costs: what it cost.
    """

    output: Path
    config: TourConfig
    costs: Costs


def search(request: SearchRequest, *, opener: Opener | None = None, progress: bool = False) -> RunSummary:
    """Search topics and write a run.

    Args:
        request: what to search, and how.
        opener: opens models, indexes and texts; give the same one to several searches, and each is opened once.
        progress: whether a bar is shown on a terminal.
    """
    opener = opener or Opener()
    request = completed(request)
    flags = request.flags() | ({"cache": without_password(request.cache)} if request.cache else {})
    shard = Shard.parse(request.shard) if request.shard else None
    request = replace(request, **{name: whole_or_shard(shard, getattr(request, name)) for name in OUTPUTS})
    assert request.output is not None and request.index is not None
    phrases = is_phrase_index(request.index)
    _check_inputs(request)
    _check_outputs(request)
    judged = {qrel.query_id for qrel in read_qrels(request.qrels)} if request.qrels else None
    topics = read_topics(request.topics, request.topics_format, only=judged)
    if judged is not None:
        topics = judged_only(topics, judged, source=str(request.qrels))
    if shard:
        topics = shard.part_of(topics, request.batch_size)
    reranker = _reranker(request, opener) if request.config.method_class.needs_labels else None
    scale = None if phrases else stored_scale(request, reranker, opener)
    kept: list[Batch] = []
    with (
        _open_file(request.trace) as trace,
        _open_file(request.predictions) as predictions,
        _searcher(request, reranker, scale, trace, predictions, opener) as searcher,
    ):
        write_run(
            _batches(searcher, topics, request, kept, reranker=reranker, progress=progress),
            request.output,
            output_format=request.output_format,
            hits=request.hits,
            tag=request.tag or f"Tour-{request.config.method}",
            topics=topics.topics,
        )
    if request.output_queries:
        _write_queries(request.output_queries, kept)
    write_record(
        request.output,
        command=["search", *words(flags)],
        config=request.config,
        files={
            "topics": request.topics,
            "index": request.index,
            "corpus": request.corpus,
            "qrels": request.qrels,
            "adapter": request.adapter,
            **_signal_files(request),
        },
        models={"reranker": getattr(reranker, "fingerprint", None)},
        found={
            "similarity_scale": _scale_record(request, scale),
            **({} if phrases else {"order": searcher.order}),
            **_service_record(reranker),
            **_store_record(searcher),
        },
        costs=searcher.costs,
        shard={"number": shard.number, "count": shard.count, "flags": _as_json(flags)} if shard else None,
    )
    return RunSummary(Path(request.output), request.config, searcher.costs)


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
        request = replace(request, sparse=_sparse(request))
    output = request.output or f"runs/{name}.{method}.trec"
    predictions = request.predictions or (str(predictions_path(output)) if phrases else None)
    return replace(request, output=output, predictions=predictions)


def _sparse(request: SearchRequest) -> tuple[Any, ...]:
    """What `--sparse` stands for: the index itself, nothing, or what is named.

    Where it says nothing and there is no other signal, methods that keep their labels use the BM25 index that is beside
    the vectors; the others are what their papers say.
    """
    index, method = str(request.index), request.config.method
    if request.sparse == (NO_SIGNAL,):
        return ()
    if request.sparse or request.index2:
        return tuple(index if spec == OWN_BM25 else spec for spec in request.sparse)
    default = TourConfig(method)
    if not request.config.method_class.keeps_labels or not has_bm25(Path(index)):
        for name in SIGNAL_SETTINGS:
            if getattr(request.config, name, None) != getattr(default, name, None):
                raise TourError(f"{flag_name(name)} changes nothing without --sparse or --index2; leave it out.")
        return ()
    if request.config.score_weight != default.score_weight:
        raise TourError(
            f"--score-weight changes nothing for the method {method} with the BM25 index of {index}; "
            f"use --belief, or --sparse {NO_SIGNAL}."
        )
    return (index,)


def open_reranker(request: SearchRequest, opener: Opener, scores: KeptScores | None = None) -> Any:
    """The re-ranker of a request, with the score cache unless `no_cache` is set.

    With the score cache, its model is loaded when a label is missing there. The cache is the request's, or `scores`.
    """
    if request.no_cache:
        return opener.open(load_reranker, request.reranker, **reranker_options(request))
    reranker = opener.open(load_reranker_later, request.reranker, **reranker_options(request))
    return opener.open(CachedReranker, reranker, scores or str(request.cache or score_cache()))


def _reranker(request: SearchRequest, opener: Opener) -> Any:
    """The re-ranker of a request; with Ray, only what tells about it, because the workers open their own."""
    if not request.ray:
        return open_reranker(request, opener)
    return opener.open(load_reranker_later, request.reranker, **reranker_options(request))


@contextlib.contextmanager
def _searcher(
    request: SearchRequest,
    reranker: Any,
    scale: IndexScale | None,
    trace: IO[str] | None,
    predictions: IO[str] | None,
    opener: Opener,
) -> Iterator[Any]:
    """What searches the batches of a request: TouR in this process, or the workers of a Ray cluster."""
    if request.ray:
        with ray_searcher(
            request, _worker_engine, reranker=reranker, scale=scale, trace=trace, predictions=predictions
        ) as searcher:
            yield searcher
    else:
        yield _engine(request, reranker, scale, trace, predictions, opener)


def _worker_engine(
    request: SearchRequest,
    scale: IndexScale | None,
    trace: IO[str] | None,
    predictions: IO[str] | None,
    scores: KeptScores | None,
) -> TourEngine:
    """TouR in a worker of a Ray cluster."""
    opener = Opener()
    labelled = request.config.method_class.needs_labels
    reranker = open_reranker(request, opener, scores) if labelled else None
    return _engine(request, reranker, scale, trace, predictions, opener)


def _engine(
    request: SearchRequest,
    reranker: Any,
    scale: IndexScale | None,
    trace: IO[str] | None,
    predictions: IO[str] | None,
    opener: Opener,
) -> TourEngine:
    """TouR over the index of a request, of passages or of phrases."""
    assert request.index is not None
    if is_phrase_index(request.index):
        return tour_phrase_searcher(request, reranker, trace=trace, predictions=predictions, opener=opener)
    return tour_engine(request, reranker, scale=scale, trace=trace, opener=opener)


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


def _check_inputs(request: SearchRequest) -> None:
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


def _scale_record(request: SearchRequest, scale: IndexScale | None) -> Any:
    """Where the scale of similarities came from, for the record."""
    if not request.config.calibrates:
        return request.config.similarity_scale
    return scale._asdict() if scale else "found for each query, from its own labels"


def _service_record(reranker: Any) -> dict[str, Any]:
    """What a re-ranking service told about itself, for the record."""
    service = getattr(reranker, "reranker", reranker)  # without its score cache
    return {"service": service.identity} if isinstance(service, RemoteReranker) else {}


def _store_record(searcher: TourEngine) -> dict[str, Any]:
    """What a vector database told about the collection that was searched, for the record."""
    describe = getattr(searcher.searcher.index, "description", None)
    return {"store": describe()} if describe else {}


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


def _signal_files(request: SearchRequest) -> dict[str, str | None]:
    """The files of further signals by role: `sparse`, `sparse 2`, ..., `index2`, ..."""
    files = {f"sparse {number}": signal_files(spec) for number, spec in enumerate(request.sparse, 1)}
    files |= {f"index2 {number}": index for number, index in enumerate(request.index2, 1)}
    return {role.removesuffix(" 1"): path for role, path in files.items()}


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
        return request.vectors
    if texts is None:
        raise TourError("--corpus is missing: --vectors encode reads the passages it encodes.")
    made = read_index_settings(request.index)
    built: dict[str, Any] = {"max_length": made.max_length, "fields": made.fields} if made else {}
    encode = load_document_encoder(
        prefix=made.prefix if made else None,
        precision=(made.precision if made else None) or "fp32",
        **_encoder_options(request, opener),
    )
    return PassageVectors(encode, docids=inner.docids, texts=texts, dimension=inner.dimension, **built)


def _batches(
    searcher: Any, topics: Any, request: SearchRequest, kept: list[Batch], *, reranker: Any, progress: bool
) -> Iterator[Batch]:
    """Search in batches with a bar; what --output-queries needs is kept."""
    config = request.config
    most_labels = config.mean_budget if config.shares_labels else config.most_labels
    done = 0
    with search_bar(len(topics), reranker=reranker, most_labels=most_labels, show=progress) as report:
        # The workers of a Ray cluster search several batches at a time.
        search_all = searcher.search_topics if isinstance(searcher, RaySearcher) else partial(search_topics, searcher)
        for batch in search_all(topics, hits=request.hits, batch_size=request.batch_size, threads=request.threads):
            with searcher.costs.stage("write"):  # until the writer asks for the next batch
                yield batch
            if request.output_queries:
                kept.append(batch._replace(hits={}))
            done += len(batch.ids)
            report(done, searcher.costs.pairs)


def _as_json(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags for a record; objects, such as a re-ranker, become text."""
    plain = (str, int, float, list, tuple)
    return {name: value if isinstance(value, plain) else str(value) for name, value in flags.items()}


def _write_queries(folder: str, batches: Sequence[Batch]) -> None:
    write_encoded_queries(
        folder,
        [id_ for batch in batches for id_ in batch.ids],
        [query for batch in batches for query in batch.queries],
        np.concatenate([batch.vectors for batch in batches]),
    )


def _run_name(topics: str) -> str:
    """A run's name from its topics: `scifact` for scifact/queries.jsonl, `nq` for nq.tsv."""
    path = Path(topics)
    first, *others = path.name.split(".")[: -1 if path.suffix else None]
    return ".".join([path.resolve().parent.name if first in ("queries", "topics") else first, *others])


def _check_outputs(request: SearchRequest) -> None:
    """Find out before the search, not after it, that everything can be written."""
    queries = f"{request.output_queries}/embedding.pkl" if request.output_queries else None
    outputs = [Path(path).resolve() for path in (request.output, request.trace, request.predictions, queries) if path]
    for number, path in enumerate(outputs):
        if path in outputs[:number]:
            raise TourError(f"the run, the trace and the predictions cannot share {path.name}; give each a name.")
    for path in outputs:
        check_output(path, [request.topics, request.corpus, request.qrels, request.adapter])


@contextlib.contextmanager
def _open_file(path: str | os.PathLike[str] | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
    else:
        with atomic_write(path) as file:
            yield file
