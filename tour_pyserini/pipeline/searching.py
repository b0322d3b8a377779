"""Searching topics: from a request to a run file with its record."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data import demo_collection
from tour_pyserini.data.qrels_file import read_qrels
from tour_pyserini.data.records import predictions_path, write_record
from tour_pyserini.data.runs import write_run
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import judged_only, read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.batches import Batch, search_topics
from tour_pyserini.pipeline.encoder_options import encoder_options
from tour_pyserini.pipeline.indexing import demo_index
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.phrase_searching import tour_phrase_searcher
from tour_pyserini.pipeline.progress import search_bar
from tour_pyserini.pipeline.request import words
from tour_pyserini.pipeline.search_request import QUERY_LENGTH, SearchRequest
from tour_pyserini.rerankers import CachedReranker, load_reranker
from tour_pyserini.stores.index_settings import check_vectors, read_index_settings
from tour_pyserini.stores.phrases.phrase_index import is_phrase_index
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write, cache_home, check_output


class RunSummary(NamedTuple):
    """What a search did.

    Attributes:
        output: the run file; its record is beside it.
        config: the method and its settings.
        similarity_scale: the factor that puts similarities on the scale of labels.
        costs: what it cost.
    """

    output: Path
    config: TourConfig
    similarity_scale: float
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
    assert request.output is not None and request.index is not None
    phrases = is_phrase_index(request.index)
    _check_outputs(request)
    judged = {qrel.query_id for qrel in read_qrels(request.qrels)} if request.qrels else None
    topics = read_topics(request.topics, request.topics_format, only=judged)
    if judged is not None:
        topics = judged_only(topics, judged, source=str(request.qrels))
    reranker = open_reranker(request, opener) if request.config.method_class.needs_labels else None
    kept: list[Batch] = []
    with _open_file(request.trace) as trace, _open_file(request.predictions) as predictions:
        make = tour_phrase_searcher if phrases else _tour_searcher
        searcher = make(request, reranker, trace=trace, predictions=predictions, opener=opener)
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
        command=["search", *words(request.flags())],
        config=request.config,
        files={"topics": request.topics, "index": request.index, "corpus": request.corpus, "qrels": request.qrels},
        models={"reranker": getattr(reranker, "fingerprint", None)},
        found={"similarity_scale": searcher.similarity_scale},
        costs=searcher.costs,
    )
    return RunSummary(Path(request.output), request.config, searcher.similarity_scale, searcher.costs)


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
    if request.config.method_class.needs_labels and not request.corpus:
        raise TourError(f"--corpus is missing: the method {method} reads the passages it labels.")
    output = request.output or f"runs/{name}.{method}.trec"
    predictions = request.predictions or (str(predictions_path(output)) if phrases else None)
    return replace(request, output=output, predictions=predictions)


def open_reranker(request: SearchRequest, opener: Opener) -> Any:
    """The re-ranker of a request, with the score cache unless `no_cache` is set."""
    reranker = opener.open(load_reranker, request.reranker, **reranker_options(request))
    if request.no_cache:
        return reranker
    return opener.open(CachedReranker, reranker, str(request.cache or cache_home() / "scores.sqlite"))


def reranker_options(request: SearchRequest) -> dict[str, Any]:
    """How the re-ranker is run, as `load_reranker` takes it."""
    return {
        "max_length": request.reranker_max_length,
        "device": request.device,
        "threads": request.reranker_threads,
        "backend": request.backend,
        "precision": request.precision,
    }


def _tour_searcher(
    request: SearchRequest, reranker: Any, *, trace: IO[str] | None, predictions: IO[str] | None, opener: Opener
) -> Any:
    # Pyserini takes seconds to start; a mistake in the request is reported before.
    from tour_pyserini.encoders.document_vectors import PassageVectors
    from tour_pyserini.encoders.encoded_queries import load_encoded_queries
    from tour_pyserini.encoders.encoder_loading import load_document_encoder, load_query_encoder
    from tour_pyserini.searchers.opening import open_searcher
    from tour_pyserini.searchers.searcher import TourSearcher
    from tour_pyserini.searchers.trace import Trace

    assert request.index is not None
    chosen = opener.open(
        encoder_options, request.index, request.encoder, pooling=request.pooling, l2_norm=request.l2_norm
    )
    options = {**chosen, "encoder_class": request.encoder_class, "device": request.device}
    if request.encoded_queries:
        encoder = opener.open(load_encoded_queries, request.encoded_queries)
    else:
        for_queries = {"query_prefix": request.query_prefix, "max_length": request.max_length or QUERY_LENGTH}
        encoder = opener.open_encoder(load_query_encoder, tokenizer=request.tokenizer, **for_queries, **options)
    inner = opener.open(open_searcher, request.index, encoder, ef_search=request.ef_search)
    texts = opener.open(open_texts, request.corpus) if request.corpus else None
    vectors: Any = request.vectors
    if vectors == "encode":
        if texts is None:
            raise TourError("--corpus is missing: --vectors encode reads the passages it encodes.")
        made = read_index_settings(request.index)
        built: dict[str, Any] = {"max_length": made.max_length, "fields": made.fields} if made else {}
        encode = load_document_encoder(prefix=made.prefix if made else None, **options)
        vectors = PassageVectors(encode, docids=inner.docids, texts=texts, dimension=inner.dimension, **built)
    elif vectors is not None:
        check_vectors(request.index, vectors)
    labelled = request.config.method_class.needs_labels
    return TourSearcher(
        inner,
        reranker,
        texts,
        request.config,
        vectors=vectors,
        remove_query=request.remove_query,
        observe=Trace(trace, inner.docids, labelled=labelled, vectors=request.trace_vectors) if trace else None,
    )


def _batches(
    searcher: Any, topics: Any, request: SearchRequest, kept: list[Batch], *, reranker: Any, progress: bool
) -> Iterator[Batch]:
    """Search in batches with a bar; what --output-queries needs is kept."""
    most_labels = request.config.most_labels
    done = 0
    with search_bar(len(topics), reranker=reranker, most_labels=most_labels, show=progress) as report:
        for batch in search_topics(
            searcher, topics, hits=request.hits, batch_size=request.batch_size, threads=request.threads
        ):
            with searcher.costs.stage("write"):  # until the writer asks for the next batch
                yield batch
            if request.output_queries:
                kept.append(batch._replace(hits={}))
            done += len(batch.ids)
            report(done, searcher.costs.pairs)


def _write_queries(folder: str, batches: Sequence[Batch]) -> None:
    from tour_pyserini.encoders.encoded_queries import write_encoded_queries

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
        check_output(path, [request.topics, request.corpus, request.qrels])


@contextlib.contextmanager
def _open_file(path: str | os.PathLike[str] | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
    else:
        with atomic_write(path) as file:
            yield file
