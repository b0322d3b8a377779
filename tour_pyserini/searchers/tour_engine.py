"""TouR over an index: encode queries, optimise them, rank. Nothing here needs Pyserini or Java."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import POOL
from tour_pyserini.core.ledger import Vectors
from tour_pyserini.core.loop import Outcome, Round, optimise
from tour_pyserini.core.ranking import Ranking, rank
from tour_pyserini.data.documents import UnknownDocument
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.document_vectors import PassageVectors
from tour_pyserini.encoders.queries import encode_queries, text_of
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, QueryAdapter
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.reranker import counted_scores
from tour_pyserini.searchers.hits import Hit, VectorHit
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.stores.index_scales import given_scale
from tour_pyserini.stores.refined_index import RefinedIndex
from tour_pyserini.stores.signals import HITS as SIGNAL_HITS
from tour_pyserini.stores.signals import found_by, open_signal
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vectors import open_vectors
from tour_pyserini.support.costs import Costs

log = logging.getLogger(__name__)

Observer = Callable[[Round, Sequence[str]], None]
"""Called after each round of a batch with what happened and the query ids of the batch."""


class TourEngine:
    """Searches an index with queries that are optimised at test time.

    It has the methods `search` and `batch_search` of Pyserini's FaissSearcher. A query given as a vector has no text
    to label and is searched as it is. `TourSearcher` is the same with Pyserini's classes of hits.

    Attributes:
        searcher: where candidates come from.
        config: what it computes.
        costs: what it has cost so far.

    Example:
        engine = TourEngine(open_index("indexes/scifact", encoder), "default", "scifact/corpus.jsonl")
        hits = engine.search("do statins prevent stroke", k=100)
    """

    hit_class: ClassVar[type[Any]] = Hit
    vector_hit_class: ClassVar[type[Any]] = VectorHit

    def __init__(
        self,
        searcher: Any,
        reranker: Any = "default",
        texts: Mapping[str, str] | str | None = None,
        config: TourConfig | None = None,
        *,
        vectors: Any = None,
        signals: Sequence[Any] = (),
        remove_query: bool = False,
        scale: float | str | os.PathLike[str] | None = None,
        adapter: QueryAdapter | str | os.PathLike[str] | None = None,
        observe: Observer | None = None,
    ) -> None:
        """Set up the search.

        Args:
            searcher: where candidates come from: a `SearchedIndex`, or a FaissSearcher of Pyserini's.
            reranker: where labels come from: anything `load_reranker` takes; not used by methods that do not label.
            texts: the candidates' passages: anything `open_texts` takes.
            config: the method and its settings.
            vectors: where candidate vectors come from if not from the index: the folder of an encoded corpus, a
                document encoder of Pyserini's, which then encodes the passages that are met, or a function.
            signals: what finds candidates beside the index, each anything `open_signal` takes: an index with BM25, a
                Lucene index, or a function `(queries, k) -> docids, scores`.
            remove_query: never retrieve the document whose docid is the query's id.
            scale: the factor that puts similarities on the scale of labels: a number, or the index that `calibrate`
                stored it beside; None: each query finds its own, from its own labels.
            adapter: corrects the vector of every query before it is searched: what `learn` wrote, or its file.
            observe: called after each round of a batch, with the query ids of the batch.
        """
        if not hasattr(searcher, "index") or not hasattr(searcher, "docids"):
            raise TourError(f"TouR searches with a FaissSearcher, not {type(searcher).__name__}.")
        if not isinstance(config, TourConfig | None):
            raise TourError(f"config is a TourConfig, not {type(config).__name__}: TourConfig.parse reads text.")
        self.searcher = searcher
        self._adapted = None if adapter is None else AdaptedQueryEncoder(searcher.query_encoder, adapter)
        self.config = config or TourConfig()
        self.costs = Costs()
        method = self.config.method_class
        if method.needs_labels and texts is None:
            raise TourError(f"the method {self.config.method} reads passages: give their texts (the corpus).")
        self._texts = open_texts(texts) if texts is not None else None
        self._reranker = load_reranker(reranker) if method.needs_labels else None
        self._scale = given_scale(scale, reranker=getattr(self._reranker, "fingerprint", None))
        self._store = as_store(searcher.index)
        if isinstance(signals, str) or callable(signals):
            raise TourError("signals is a list of signals; put the one you have in brackets.")
        self._signals = [open_signal(signal) for signal in signals]
        self._vectors = self._open_vectors(vectors) if self.config.rounds or self._signals else None
        # Hits of a compressed index are put in exact order if exact vectors are stored; no passage is encoded for it.
        comparable = method.keeps_labels or self._signals
        refined = comparable and isinstance(self._vectors, EncodedCorpus) and not self._store.exact
        self._retrieve = (RefinedIndex(self._store, self._vectors) if refined and self._vectors else self._store).search
        self._remove_query = remove_query
        self._positions = {docid: i for i, docid in enumerate(searcher.docids)} if remove_query or signals else {}
        self._observe = observe

    def __getattr__(self, name: str) -> Any:
        if name == "searcher":  # an object being copied or unpickled has no attribute yet
            raise AttributeError(name)
        return getattr(self.searcher, name)

    @property
    def _least_hits(self) -> int:
        """Hits that every search must return: a method that keeps its labels looks for candidates beyond those."""
        labelled = self.config.most_labels if self.config.method_class.keeps_labels else self.config.depth
        return max(labelled, POOL) if self._signals else labelled

    def search(
        self,
        query: str | np.ndarray | dict[str, Any],
        k: int = 10,
        threads: int = 1,
        remove_dups: bool = False,
        return_vector: bool = False,
    ) -> Any:
        """Search with one query; FaissSearcher's arguments and results.

        Returns:
            The hits, best first; with `return_vector`, the optimised query vector [1, d] and hits that carry theirs.
        """
        queries = query.reshape(1, -1) if isinstance(query, np.ndarray) else [query]
        vectors, results = self.batch_run(queries, ["query"], k, threads, hit_vectors=return_vector)
        hits = results["query"]
        if remove_dups:
            hits = list({hit.docid: hit for hit in reversed(hits)}.values())[::-1]
        return (vectors, hits) if return_vector else hits

    def batch_search(
        self,
        queries: list[str] | np.ndarray | list[dict[str, Any]],
        q_ids: list[str],
        k: int = 10,
        threads: int = 1,
        return_vector: bool = False,
    ) -> Any:
        """Search with many queries, which advance together; FaissSearcher's arguments and results.

        Returns:
            Hits by query id; with `return_vector`, the optimised query vectors [n, d] and hits that carry theirs.
        """
        vectors, results = self.batch_run(queries, q_ids, k, threads, hit_vectors=return_vector)
        return (vectors, results) if return_vector else results

    def batch_run(
        self, queries: Any, q_ids: list[str], k: int = 10, threads: int = 1, *, hit_vectors: bool = False
    ) -> tuple[Floats, dict[str, list[Any]]]:
        """The optimised vectors [n, d] and the hits by query id, which carry their own vectors when asked to."""
        if len(queries) != len(q_ids):
            raise TourError(f"{len(queries)} queries came with {len(q_ids)} ids; give one id per query.")
        if len(set(q_ids)) != len(q_ids):
            twice = next(id_ for i, id_ in enumerate(q_ids) if id_ in q_ids[:i])
            raise TourError(f"the query id {twice!r} is given twice; ids must be unique.")
        if k < 1:
            raise TourError(f"the number of hits must be at least 1, not {k}.")
        if not len(queries):
            return np.empty((0, self.searcher.dimension), dtype=np.float32), {}
        with self.costs.stage("update"):
            outcome = self._optimise(queries, q_ids, k, threads)
        config = TourConfig.preset("dense") if isinstance(queries, np.ndarray) else self.config
        as_hits = self._with_vectors if hit_vectors else self._plain
        with self.costs.stage("rank"):
            results = {q_id: as_hits(rank(outcome, row, config, hits=k)) for row, q_id in enumerate(q_ids)}
        return outcome.queries, results

    def optimised(self, queries: list[str] | list[dict[str, Any]], *, threads: int = 1) -> Floats:
        """The optimised vectors [n, d] of the queries."""
        if not queries:
            return np.empty((0, self.searcher.dimension), dtype=np.float32)
        return self._optimise(queries, [str(row) for row in range(len(queries))], self.config.depth, threads).queries

    def _optimise(self, queries: Any, q_ids: list[str], k: int, threads: int) -> Outcome:
        if isinstance(queries, np.ndarray):
            log.info("queries given as vectors carry no text to label and are searched as they are")
            config, texts = TourConfig.preset("dense"), []
        else:
            config, texts = self.config, [text_of(query, q_id) for query, q_id in zip(queries, q_ids, strict=True)]
        with self.costs.stage("encode"):
            encoded = encode_queries(
                self._adapted or self.searcher.query_encoder, queries, q_ids, self.searcher.dimension
            )
        positions = self._positions if self._remove_query else {}
        own = np.array([positions.get(str(q_id), -1) for q_id in q_ids], dtype=np.int64)
        outcome = optimise(
            encoded,
            config,
            search=lambda rows, vectors: self._search(
                _finite(vectors, [q_ids[row] for row in rows]), max(k, self._least_hits), own[rows], threads
            ),
            signals=self._found(texts, own) if texts else (),
            vectors=self._fetch,
            score=lambda rows, ids: self._score([texts[row] for row in rows], ids),
            scale=self._scale,
            observe=(lambda round_: self._observe(round_, q_ids)) if self._observe else None,  # type: ignore[misc]
        )
        ledger = outcome.ledger
        self.costs.add(
            queries=len(q_ids),
            updates=int(outcome.updates.sum()),
            pairs=ledger.bought,
            reused=ledger.requested - ledger.bought,
        )
        return outcome

    def _open_vectors(self, spec: Any) -> Vectors:
        docids, store = self.searcher.docids, self._store
        if hasattr(spec, "encode") and not isinstance(spec, str):
            if self._texts is None:
                raise TourError("passages cannot be encoded as they are met without their texts; give the corpus too.")
            return PassageVectors(spec, docids=docids, texts=self._texts, dimension=store.dimension)
        return open_vectors(spec, store=store, docids=docids)

    def _search(self, vectors: Floats, k: int, own: Ids, threads: int) -> Hits:
        """The hits [n, k] without each query's own document, if it has one."""
        with self.costs.stage("search"):
            if not (own >= 0).any():
                return self._retrieve(vectors, k, threads=threads)
            return _without(own, self._retrieve(vectors, k + 1, threads=threads), k)

    def _found(self, texts: list[str], own: Ids) -> list[Hits]:
        """What each signal finds for the queries, without each query's own document, if it has one."""
        with self.costs.stage("search"):
            found = [found_by(signal, texts, SIGNAL_HITS + 1, self._positions) for signal in self._signals]
            return [_without(own, hits, SIGNAL_HITS) for hits in found]

    def _fetch(self, ids: Ids) -> Floats:
        assert self._vectors is not None
        with self.costs.stage("vectors"):
            return self._vectors(ids)

    def _score(self, queries: list[str], ids: Ids) -> Floats:
        assert self._reranker is not None and self._texts is not None
        with self.costs.stage("texts"):
            pairs = [(query, self._text(self._docid(id_))) for query, id_ in zip(queries, ids.tolist(), strict=True)]
        with self.costs.stage("label"):
            scores, computed = counted_scores(self._reranker, pairs)
        self.costs.add(scored=computed)
        return scores

    def _text(self, docid: str) -> str:
        assert self._texts is not None
        try:
            text = self._texts[docid]
        except UnknownDocument:
            raise
        except KeyError:
            raise UnknownDocument(docid, "the given texts") from None
        if not isinstance(text, str):
            raise TourError(f"the text of document {docid!r} is {type(text).__name__}, not a string.")
        return text

    def _plain(self, ranking: Ranking) -> list[Any]:
        return [
            self.hit_class(self._docid(id_), score, texts=self._texts)
            for id_, score in zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True)
        ]

    def _with_vectors(self, ranking: Ranking) -> list[Any]:
        fetch = self._vectors or self._open_vectors(None)
        return [
            self.vector_hit_class(hit.docid, hit.score, vector, texts=self._texts)
            for hit, vector in zip(self._plain(ranking), fetch(ranking.ids), strict=True)
        ]

    def _docid(self, id_: int) -> str:
        return self.searcher.docids[id_]


def _without(own: Ids, hits: Hits, k: int) -> Hits:
    """The first k of the hits [n, k + 1] that are not the query's own document; `own` [n] is -1 where it has none."""
    # A stable sort on "is the query's own document" moves it to the end, where the extra column is cut off.
    order = np.argsort((hits.ids == own[:, None]) & (own[:, None] >= 0), axis=1, kind="stable")
    ids = np.take_along_axis(hits.ids, order, axis=1)[:, :k]
    similarities = np.take_along_axis(hits.similarities, order, axis=1)[:, :k]
    is_own = ids == own[:, None]
    return Hits(np.where(is_own, -1, ids), np.where(is_own, -np.inf, similarities))


def _finite(vectors: Floats, q_ids: list[str]) -> Floats:
    """The vectors [n, d], checked for NaN and infinity."""
    diverged = ~np.isfinite(vectors).all(axis=1)
    if diverged.any():
        raise TourError(
            f"the vector of query {q_ids[int(diverged.argmax())]!r} diverged; lower learning_rate or momentum."
        )
    return vectors
