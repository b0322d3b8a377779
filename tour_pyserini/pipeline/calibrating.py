"""Calibrating an index: finding, once, what a unit of similarity is worth in labels."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.calibration import Moments, moments, scale_of_all
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.loop import Round
from tour_pyserini.data import demo_collection
from tour_pyserini.data.documents import one_line_parts
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.spans import sentence_offsets
from tour_pyserini.pipeline.engine_opening import open_reranker, query_encoder_fingerprint, tour_engine
from tour_pyserini.pipeline.models_request import INPUT, MODELS, ModelsRequest
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.request import option
from tour_pyserini.pipeline.search_request import SearchRequest
from tour_pyserini.stores.index_scales import IndexScale, write_scale
from tour_pyserini.support.costs import Costs

LONGEST_QUERY = 24
"""Words of a passage's first sentence that stand for a query."""


@dataclass(frozen=True, kw_only=True)
class CalibrateRequest(ModelsRequest):
    """Find the scale of an index; the fields are the flags of `python -m tour_pyserini.calibrate`.

    Attributes:
        index: the index, whose folder the scale is stored in.
        corpus: its passages.
        vectors: exact vectors of a compressed index: searches with them compare exact similarities with labels.
        topics: queries to find the scale on; without them, passages of the corpus stand for queries.
        queries: how many queries are used.
        depth: how many candidates of each are labelled.
    """

    topics: str | None = option(
        None, "queries to calibrate on (default: titles or first sentences of passages)", group=INPUT
    )
    queries: int = option(64, "how many queries are used", group=INPUT, count=True)
    depth: int = option(10, "candidates labelled for each query", group=INPUT, count=True)
    no_cache: bool = option(False, "do not read or write kept labels and query vectors", group=MODELS)


class CalibrateSummary(NamedTuple):
    """What was found, the file it was stored in, and what it cost."""

    found: IndexScale
    path: Path
    costs: Costs


def calibrate(request: CalibrateRequest, *, opener: Opener | None = None) -> CalibrateSummary:
    """Find the scale of an index for an encoder and a re-ranker, and store it beside the index.

    Searches read it from there: their results then depend on this scale, and on nothing that was searched before.

    Args:
        request: the index, the models, and the queries to use.
        opener: opens models, indexes and texts.
    """
    opener = opener or Opener()
    search = _search_request(request)
    reranker = open_reranker(search, opener)
    fingerprint = getattr(reranker, "fingerprint", None)
    if not fingerprint:
        raise TourError("the re-ranker has no fingerprint that identifies it, so no scale can be stored for it.")
    ids, queries, source = _queries(request, opener)
    found: list[Moments] = []

    def observe(round_: Round, _: Sequence[str]) -> None:
        if round_.t == 0:
            candidates = round_.candidates
            found.append(moments(candidates.similarities, candidates.labels, candidates.mask))

    searcher = tour_engine(search, reranker, observe=observe, opener=opener)
    searcher.batch_run(queries, ids, k=request.depth)
    pooled = Moments(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    scale = IndexScale(
        scale=scale_of_all(pooled),
        encoder=query_encoder_fingerprint(search, opener),
        reranker=fingerprint,
        queries=len(queries),
        labels=int(pooled.candidates.sum()),
        source=source,
    )
    return CalibrateSummary(scale, write_scale(request.index, scale), searcher.costs)


def _search_request(request: CalibrateRequest) -> SearchRequest:
    """A search that labels the first candidates and leaves similarities as they are."""
    config = TourConfig("rerank", depth=request.depth, similarity_scale=1.0, calibrate="never")
    if request.vectors:  # re-ranking knows similarities of hits, anchored methods those of exact vectors
        config = config.replace(method="anchored", budget=request.depth, early_stopping=False)
    return request.search_request(
        topics=request.topics or "", config=config, no_cache=request.no_cache, remove_query=request.topics is None
    )


def _queries(request: CalibrateRequest, opener: Opener) -> tuple[list[str], list[str], str]:
    """Ids and texts of the queries, and where they come from."""
    if request.topics is not None:
        given = demo_collection.QUERIES if request.topics == "demo" else request.topics
        topics = [(str(id_), query) for id_, query in read_topics(given)]
        chosen = topics[:: max(1, len(topics) // request.queries)][: request.queries]
        source = f"{len(chosen)} topics of {request.topics}"
    else:
        texts = opener.open(open_texts, request.corpus)
        # By a hash of the docid: the same passages wherever and whenever it is done, in any order of the corpus.
        order = sorted(texts, key=lambda docid: hashlib.blake2b(str(docid).encode(), digest_size=8).digest())
        chosen = [(docid, query) for docid in order[: 4 * request.queries] if (query := _as_query(texts[docid]))]
        chosen = chosen[: request.queries]
        source = f"titles or first sentences of {len(chosen)} passages"
    if not chosen:
        raise TourError(f"there is no query to calibrate on in {request.topics or request.corpus}.")
    return [id_ for id_, _ in chosen], [query for _, query in chosen], source


def _as_query(passage: str) -> str:
    """A passage's title or, without one, the first words of its first sentence."""
    title, text = one_line_parts(passage)
    if title.strip():
        return title.strip()
    begin, end = next(iter(sentence_offsets(text)), (0, 0))
    return " ".join(text[begin:end].split()[:LONGEST_QUERY])
