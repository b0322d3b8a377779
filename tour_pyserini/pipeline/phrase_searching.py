"""Searching a phrase index: the searcher that a request describes."""

import logging
from typing import IO, Any

from tour_pyserini.data.predictions import write_predictions
from tour_pyserini.data.texts import open_texts
from tour_pyserini.phrases.index import check_corpus, is_built_with, open_phrase_index, read_settings
from tour_pyserini.phrases.phrase_input import PhraseInput, read_phrase_input
from tour_pyserini.phrases.searcher import PhraseSearcher
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.search_request import SearchRequest
from tour_pyserini.searchers.tour_phrase_searcher import TourPhraseSearcher
from tour_pyserini.searchers.trace import Trace

log = logging.getLogger(__name__)

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
    opener.open(check_corpus, request.index, request.corpus)
    return PhraseSearcher(
        opener.open(open_phrase_index, request.index, nprobe=request.nprobe),
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
        from tour_pyserini.encoders.encoded_queries import load_encoded_queries

        return opener.open(load_encoded_queries, request.encoded_queries)
    # torch and transformers take seconds to start.
    from tour_pyserini.phrases.encoder import load_phrase_encoder

    made = read_settings(request.index)
    encoder = opener.open_encoder(
        load_phrase_encoder, request.encoder or made["encoder"], device=request.device, tokenizer=request.tokenizer
    )
    if not is_built_with(request.index, encoder):
        searched = request.encoder or "a changed version of it"
        log.warning("%s was built with %s and is searched with %s", request.index, made["encoder"], searched)
    return encoder
