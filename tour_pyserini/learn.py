# PYTHON_ARGCOMPLETE_OK
"""Learn a correction of the query encoder from cached labels.

It reads the labels that searches of the given topics left there, and computes none. The correction is written as an
adapter. What is written is chosen by held-out queries; if they do not gain by it, nothing is written and the exit code
is 2. `search --adapter FILE` uses it.
"""

import functools
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tour_pyserini.command import run
from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.encoders.encoder import encode_queries, text_of
from tour_pyserini.encoders.query_adapter import QueryAdapter
from tour_pyserini.errors import TourError
from tour_pyserini.flags import flag_name, option, request_parser
from tour_pyserini.opening import Opener
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vectors import open_vectors
from tour_pyserini.support.files import check_output
from tour_pyserini.training.adapter import FOLDS, SHARPNESS, Choice, LabelledQueries, low_rank

_READ = (
    *("topics", "topics_format", "index", "corpus", "vectors", "encoder", "encoder_class", "tokenizer", "pooling"),
    *("l2_norm", "truncate_dim", "query_prefix", "device", "dtype", "trust_remote_code", "reranker"),
    *("reranker_max_length", "reranker_prompt", "instruction", "backend", "precision", "cache"),
)
"""What it takes of a search: the topics, index, passages and models of the searches that left the labels."""

EXAMPLE = """example:
  python -m tour_pyserini.search --topics train.tsv --index indexes/a --corpus a/corpus.jsonl
  python -m tour_pyserini.learn --topics train.tsv --index indexes/a --corpus a/corpus.jsonl --output a.adapter
  python -m tour_pyserini.search --topics test.tsv --index indexes/a --corpus a/corpus.jsonl --adapter a.adapter"""
LEAST_QUERIES = 50
"""With fewer queries, no gain on held-out ones can be told from chance."""
SIGNIFICANT = 0.05
BATCH = 64
BACKGROUND = 100
"""Passages that stand for all passages without labels."""


@dataclass(frozen=True, kw_only=True)
class LearnRequest(SearchRequest):
    """Learn an adapter; the fields are the flags of `python -m tour_pyserini.learn`.

    Topics, index, passages, encoder and re-ranker are those of the searches that left the labels; a topic without a
    text is left out.

    Attributes:
        depth: how many of a query's nearest passages are looked up in the score cache.
        output: the adapter file.
    """

    NO_FLAGS: ClassVar[frozenset[str]] = frozenset(item.name for item in fields(SearchRequest)) - {*_READ, "output"}

    depth: int = option(200, "passages near a query whose cached labels are looked up", count=True)
    output: str | None = option(None, "the adapter", group="what is written", common=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("index", "corpus", "output"):
            if not getattr(self, name):
                raise TourError(f"{flag_name(name)} is missing.")


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
    """Fit a correction of query vectors to the topics' cached labels, and write it if held-out queries gain by it.

    No label is computed. Topics without labels in the score cache are left out.

    Args:
        request: the topics, the index and the models.
        opener: opens models, indexes and texts.

    Raises:
        NoGain: if the labels of held-out queries do not improve.
        TourError: if there are too few labels.
    """
    opener = opener or Opener()
    check_output(str(request.output), [request.topics, request.corpus])
    search = SearchRequest(**{name: getattr(request, name) for name in _READ}, config=TourConfig("dense"))
    reranker = opener.reranker(search)
    searcher = opener.searcher(search, None).searcher
    store, encoder = as_store(searcher.index), searcher.query_encoder
    ids, queries = _queries(request)
    vectors = encode_queries(encoder, queries, ids, store.dimension)
    texts = opener.open(open_texts, str(request.corpus))
    data, rows = _read_cached_labels(request, queries, vectors, reranker, searcher, texts)
    if len(rows) < LEAST_QUERIES:
        raise TourError(
            f"{len(rows)} of the {len(queries)} queries of {request.topics} have two or more cached labels of "
            f"{reranker.name} that differ, among their first {request.depth} passages; at least {LEAST_QUERIES} are "
            "needed: search them first, with the same models and score cache."
        )
    choice = data.choose(_folds([queries[row] for row in rows]), store)
    if choice.gain <= 0 or choice.p > SIGNIFICANT:
        raise NoGain(choice, queries=len(rows), labels=data.count)
    (matrix,) = data.fit(data.targets(), [choice.ridge])
    docids = hashlib.sha256("".join(f"{docid}\n" for docid in searcher.docids).encode()).hexdigest()
    about = {
        "encoder": opener.encoder_fingerprint(search),
        "reranker": reranker.fingerprint,
        "index": {"name": request.index, "passages": store.size, "docids": docids},
        "topics": {"name": request.topics, "queries": len(rows), "labels": data.count},
        "chosen": {**choice._asdict(), "sharpness": SHARPNESS, "background": len(data.background), "folds": FOLDS},
    }
    adapter = QueryAdapter(*low_rank(matrix, choice.rank), QueryAdapter.probe(encoder), about)
    adapter.write(str(request.output))
    return LearnSummary(Path(str(request.output)), adapter, choice, len(rows), data.count)


def _read_cached_labels(
    request: LearnRequest, queries: Sequence[str], vectors: Floats, reranker: Any, searcher: Any, texts: Any
) -> tuple[LabelledQueries, Ids]:
    """Look up the labels of the passages near each query in the score cache; none is computed.

    The score cache is keyed by the texts of pairs, so it can be asked for a pair, but not for all pairs of a query.

    Returns:
        The queries that have at least two labels that differ, and their rows in `queries`. Their candidates are rows
        of `passages`, which holds the labelled passages only.
    """
    store, docids = as_store(searcher.index), searcher.docids
    passage_vectors = open_vectors(request.vectors, store=store, docids=docids)
    passage = functools.cache(lambda id_: texts[docids[id_]])  # it is near many queries, and reading it takes time
    found: dict[int, dict[int, float]] = {}  # row of a query: position of a passage: label
    for start in range(0, len(queries), BATCH):
        near = store.search(vectors[start : start + BATCH], request.depth).ids
        places = [(row, id_) for row, ids in enumerate(near.tolist(), start) for id_ in ids if id_ >= 0]
        labels = reranker.lookup([(queries[row], passage(id_)) for row, id_ in places])
        for (row, id_), label in zip(places, labels.tolist(), strict=True):
            if np.isfinite(label):
                found.setdefault(row, {})[id_] = label
    # Equal labels alone say nothing about the order of a query's passages.
    found = {row: labelled for row, labelled in found.items() if len(set(labelled.values())) > 1}
    ids = np.full((len(found), max(map(len, found.values()), default=0)), -1, dtype=np.int64)
    labels = np.full(ids.shape, np.nan)
    for number, labelled in enumerate(found.values()):
        ids[number, : len(labelled)], labels[number, : len(labelled)] = list(labelled), list(labelled.values())
    positions = np.unique(ids[ids >= 0])
    candidates = np.where(ids >= 0, np.searchsorted(positions, ids), -1)
    rows = np.array(list(found), dtype=np.int64)
    passages = np.asarray(passage_vectors(positions), dtype=np.float32)
    # Evenly spaced, so that it is the same on every run; an index that is sorted by topic is sampled evenly too.
    background = np.unique(np.linspace(0, store.size - 1, min(BACKGROUND, store.size)).astype(np.int64))
    around = np.asarray(passage_vectors(background), dtype=np.float32)
    return LabelledQueries(vectors[rows], passages, positions, candidates, labels, background, around), rows


def _queries(request: LearnRequest) -> tuple[list[str], list[str]]:
    """Ids and texts of the topics; of topics with the same text, the first, and none without a text."""
    topics: dict[str, str] = {}
    for id_, query in read_topics(request.topics, request.topics_format, only=frozenset()):
        if query and str(query).strip():
            topics.setdefault(text_of(query, str(id_)), str(id_))
    return list(topics.values()), list(topics)


def _folds(queries: Sequence[str]) -> Ids:
    """The fold of each query [n], by a hash of its text: the same whatever the other queries are."""
    return np.array(
        [int(hashlib.blake2b(query.encode("utf-8", "surrogatepass")).hexdigest(), 16) % FOLDS for query in queries]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("learn", LearnRequest, description=__doc__, epilog=EXAMPLE)
    done = learn(LearnRequest.from_flags(vars(parser.parse_args(argv))))
    choice = done.choice
    sys.stderr.write(
        f"{done.output}: rank {choice.rank}, ridge {choice.ridge:g}, from {done.labels} labels of {done.queries} "
        f"queries; held-out queries: the reciprocal rank of the passage with the best label rises from "
        f"{choice.before:.4f} by {choice.gain:.4f} (p {choice.p:.2g})\n"
    )


if __name__ == "__main__":
    run(main)
