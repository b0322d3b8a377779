"""Learning a correction of the query encoder from kept labels: from a request to an adapter file."""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.encoders.encoder import encode_queries, text_of
from tour_pyserini.encoders.query_adapter import QueryAdapter, probe_vectors, write_adapter
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.engine_opening import open_reranker, query_encoder_fingerprint, tour_engine
from tour_pyserini.pipeline.models_request import INPUT, ModelsRequest
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.request import option
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vectors import open_vectors
from tour_pyserini.support.files import check_output
from tour_pyserini.training.adapter_choice import FOLDS, SHARPNESS, Choice, choose, targets_of
from tour_pyserini.training.adapter_fit import fit_matrices, low_rank
from tour_pyserini.training.kept_labels import read_kept_labels

LEAST_QUERIES = 50
"""With fewer queries, no gain on held-out ones can be told from chance."""
SIGNIFICANT = 0.05

_OUTPUT = "what is written"


@dataclass(frozen=True, kw_only=True)
class LearnRequest(ModelsRequest):
    """Learn an adapter; the fields are the flags of `python -m tour_pyserini.learn`.

    Attributes:
        topics: the queries whose kept labels are used.
        output: the adapter file.
        depth: how many of a query's nearest passages are looked up in the score cache.
    """

    topics: str = option(
        dataclasses.MISSING,
        "the queries whose kept labels are used: topics as `search` takes them",
        group=INPUT,
    )
    topics_format: str = option("default", "Pyserini's format of topics", group=INPUT, metavar="FORMAT")
    depth: int = option(200, "passages near a query whose kept labels are looked up", group=INPUT, count=True)
    output: str = option(dataclasses.MISSING, "the adapter", group=_OUTPUT, metavar="FILE")


class LearnSummary(NamedTuple):
    """What was learnt.

    Attributes:
        output: the adapter file.
        adapter: what it holds.
        choice: the chosen settings, and what they gain on held-out queries.
        queries: how many queries had labels.
        labels: how many labels they had.
    """

    output: Path
    adapter: QueryAdapter
    choice: Choice
    queries: int
    labels: int


class NoGain(TourError):
    """The labels of held-out queries do not improve, so nothing was written.

    Attributes:
        choice: the best settings, and what they change on held-out queries.
        labels: how many labels there were.
    """

    def __init__(self, choice: Choice, *, queries: int, labels: int) -> None:
        super().__init__(
            f"nothing is written, as held-out queries do not gain: the mean reciprocal rank of the passage with the "
            f"best label is {choice.before:.4f}, and the best correction (rank {choice.rank}, ridge {choice.ridge:g}) "
            f"changes it by {choice.gain:+.4f} (p {choice.p:.3f}; {labels} labels of {queries} queries); "
            "try again when there are labels of more queries."
        )
        self.choice, self.labels = choice, labels


def learn(request: LearnRequest, *, opener: Opener | None = None) -> LearnSummary:
    """Fit a correction of query vectors to the kept labels of the topics, and write it if held-out queries gain by it.

    No label is bought. Topics without kept labels are left out.

    Args:
        request: the topics, the index and the models.
        opener: opens models, indexes and texts.

    Raises:
        NoGain: if the labels of held-out queries do not improve.
        TourError: if there are too few labels.
    """
    opener = opener or Opener()
    check_output(request.output, [request.topics, request.corpus])
    search = request.search_request(topics=request.topics, config=TourConfig("dense"))
    reranker = open_reranker(search, opener)
    searcher = tour_engine(search, None, opener=opener).searcher
    store = as_store(searcher.index)
    ids, queries = _queries(request)
    encoder = searcher.query_encoder
    vectors = encode_queries(encoder, queries, ids, store.dimension)
    data, rows = read_kept_labels(
        queries,
        vectors,
        reranker,
        store=store,
        passage_vectors=open_vectors(request.vectors, store=store, docids=searcher.docids),
        docids=searcher.docids,
        texts=opener.open(open_texts, request.corpus),
        depth=request.depth,
    )
    if len(rows) < LEAST_QUERIES:
        raise TourError(
            f"{len(rows)} of the {len(queries)} queries of {request.topics} have two or more kept labels of "
            f"{reranker.name} that differ, among their first {request.depth} passages; at least {LEAST_QUERIES} are "
            "needed: search them first, with the same models and score cache."
        )
    choice = choose(data, _folds([queries[row] for row in rows]), store)
    if choice.gain <= 0 or choice.p > SIGNIFICANT:
        raise NoGain(choice, queries=len(rows), labels=data.count)
    (matrix,) = fit_matrices(data, targets_of(data), [choice.ridge])
    about = {
        "encoder": query_encoder_fingerprint(search, opener),
        "reranker": reranker.fingerprint,
        "index": {"name": request.index, "passages": store.size, "docids": _checksum(searcher.docids)},
        "topics": {"name": request.topics, "queries": len(rows), "labels": data.count},
        "chosen": {**choice._asdict(), "sharpness": SHARPNESS, "background": len(data.background), "folds": FOLDS},
    }
    adapter = QueryAdapter(*low_rank(matrix, choice.rank), probe_vectors(encoder), about)
    write_adapter(request.output, adapter)
    return LearnSummary(Path(request.output), adapter, choice, len(rows), data.count)


def _queries(request: LearnRequest) -> tuple[list[str], list[str]]:
    """Ids and texts of the topics; of topics with the same text, the first."""
    topics: dict[str, str] = {}
    for id_, query in read_topics(request.topics, request.topics_format):
        topics.setdefault(text_of(query, str(id_)), str(id_))
    return list(topics.values()), list(topics)


def _folds(queries: Sequence[str]) -> Ids:
    """The fold of each query [n], by a hash of its text: the same whatever the other queries are."""
    return np.array(
        [int(hashlib.blake2b(query.encode("utf-8", "surrogatepass")).hexdigest(), 16) % FOLDS for query in queries]
    )


def _checksum(docids: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for docid in docids:
        digest.update(f"{docid}\n".encode())
    return digest.hexdigest()
