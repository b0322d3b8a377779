"""TouR over an index: encode queries, optimise them, rank. Nothing here needs Pyserini or Java."""

import copy
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import POOL
from tour_pyserini.core.ledger import Vectors
from tour_pyserini.core.loop import Outcome, Round, StopReason, optimise, rounds
from tour_pyserini.core.purse import Grant, Purse
from tour_pyserini.core.ranking import Ranking, rank
from tour_pyserini.data.documents import UnknownDocument
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.document_vectors import PassageVectors
from tour_pyserini.encoders.queries import encode_queries, text_of
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, QueryAdapter
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.reranker import Pair, counted_scores
from tour_pyserini.searchers.dense_signal import as_signal, dense_part, listed, sparse_parts
from tour_pyserini.searchers.hits import Hit, HitList, VectorHit
from tour_pyserini.searchers.shared_labels import (
    Labels,
    SharedLabels,
    check_purse,
    lone_grant,
    remembering,
    share_labels,
)
from tour_pyserini.stores.engines.collection_texts import StoredTexts
from tour_pyserini.stores.index_scales import given_scale
from tour_pyserini.stores.positions import positions_of
from tour_pyserini.stores.refined_index import in_order
from tour_pyserini.stores.signals import HITS as SIGNAL_HITS
from tour_pyserini.stores.signals import check_documents, found_by
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vectors import open_vectors
from tour_pyserini.support.costs import Costs

log = logging.getLogger(__name__)

Observer = Callable[[Round, Sequence[str]], None]
"""Called after each round of a batch with what happened and the query ids of the batch."""
Label = Callable[[Sequence[Pair]], Floats]
"""Labels [m] of m (query, passage) pairs; NaN where there is no time for one, and the search then ends."""


class SearchRound(NamedTuple):
    """The list of a query after its first retrieval, or after a round.

    Attributes:
        hits: the list so far, best first.
        ids: [m] their positions in the index.
        query: [d] the query's vector.
        t: how often it was updated.
        labels: all labels bought so far, by position in the index.
        stop: why the search ends with this list; None when it goes on.
    """

    hits: list[Any]
    ids: Ids
    query: Floats
    t: int
    labels: dict[int, float]
    stop: StopReason | None


class TourEngine:
    """Searches an index with queries that are optimised at test time.

    It has the methods `search` and `batch_search` of Pyserini's FaissSearcher. A query given as a vector has no text
    to label and is searched as it is. `TourSearcher` is the same with Pyserini's classes of hits.

    Attributes:
        searcher: where candidates come from.
        config: what it computes.
        costs: what it has cost so far.
        order: the order of hits: `exact`, or that of a compressed `index`.

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
        order: str | None = None,
        signals: Sequence[Any] = (),
        remove_query: bool = False,
        scale: float | str | os.PathLike[str] | None = None,
        purse: Purse | None = None,
        adapter: QueryAdapter | str | os.PathLike[str] | None = None,
        observe: Observer | None = None,
    ) -> None:
        """Set up the search.

        Args:
            searcher: where candidates come from: a `SearchedIndex`, or a FaissSearcher of Pyserini's; or a
                HybridSearcher, whose second searcher is a signal.
            reranker: where labels come from: anything `load_reranker` takes; not used by methods that do not label.
            texts: the candidates' passages: anything `open_texts` takes.
            config: the method and its settings.
            vectors: where candidate vectors come from if not from the index: the folder of an encoded corpus, a
                document encoder of Pyserini's, which then encodes the passages that are met, or a function.
            order: the order of a compressed index's hits: `exact`, by these vectors, or the `index`'s own. None: exact
                for every method where the vectors are those of an encoded corpus.
            signals: what finds candidates beside the index, each anything `as_signal` takes: an index with BM25, a
                Lucene index, another searcher of Pyserini's, or a function `(queries, k) -> docids, scores`.
            remove_query: never retrieve the document whose docid is the query's id.
            scale: the factor that puts similarities on the scale of labels: a number, or the index that `calibrate`
                stored it beside; None: each query finds its own, from its own labels.
            purse: labels that queries share in the order in which they arrive; for a service.
            adapter: corrects the vector of every query before it is searched: what `learn` wrote, or its file.
            observe: called after each round of a batch, with the query ids of the batch.
        """
        searcher, signals = dense_part(searcher), [*sparse_parts(searcher), *listed(signals)]
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
        self._signals = [as_signal(signal) for signal in signals]
        stored = order != "index" and isinstance(vectors, str | os.PathLike)
        reads = self.config.rounds or self._signals or stored or (order == "exact" and vectors is not None)
        self._vectors = self._open_vectors(vectors) if reads else None
        searched = in_order(self._store, None if vectors is None else self._vectors, order)
        self._retrieve = searched.search
        self.order = "exact" if self._store.exact or searched is not self._store else "index"
        self._remove_query = remove_query
        self._positions = positions_of(searcher.docids) if remove_query or signals else {}
        for signal in self._signals:
            check_documents(signal, self._positions)
        if purse is not None:
            check_purse(purse, self.config)
        self._purse, self._observe = purse, observe

    def __getattr__(self, name: str) -> Any:
        if name == "searcher":  # an object being copied or unpickled has no attribute yet
            raise AttributeError(name)
        return getattr(self.searcher, name)

    def with_signals(self, *signals: Any) -> Self:
        """The same search with further signals, each anything `as_signal` takes; models and costs are shared."""
        self._positions = self._positions or positions_of(self.searcher.docids)  # once for all that are made from it
        self._vectors = self._vectors or self._open_vectors(None)
        other = copy.copy(self)
        other._signals = [*self._signals, *map(as_signal, signals)]
        for signal in other._signals:
            check_documents(signal, other._positions)
        return other

    @property
    def _least_hits(self) -> int:
        """Hits that every search must return."""
        return max(self.config.least_hits, POOL) if self._signals else self.config.least_hits

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
            hits = HitList(reversed({hit.docid: hit for hit in reversed(hits)}.values()))
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
        self,
        queries: Any,
        q_ids: list[str],
        k: int = 10,
        threads: int = 1,
        *,
        hit_vectors: bool = False,
        shared: SharedLabels | None = None,
    ) -> tuple[Floats, dict[str, list[Any]]]:
        """The optimised vectors [n, d] and the hits by query id, which carry their own vectors when asked to.

        With `mean_budget`, the queries share labels among themselves or, with `shared`, as `share_labels` decided.
        """
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
            outcome = self._optimise(queries, q_ids, k, threads, shared)
        config = TourConfig.preset("dense") if isinstance(queries, np.ndarray) else self.config
        as_hits = self._with_vectors if hit_vectors else self._plain
        with self.costs.stage("rank"):
            results: dict[str, list[Any]] = {
                q_id: as_hits(rank(outcome, row, config, hits=k)) for row, q_id in enumerate(q_ids)
            }
        return outcome.queries, results

    def rounds(
        self, query: str | dict[str, Any], k: int = 10, threads: int = 1, *, label: Label | None = None
    ) -> Iterator[SearchRound]:
        """Search with one query and hand over every list on the way; the last one is what `search` returns.

        The first list comes before any label is bought. Whoever stops asking pays for no more labels.

        Args:
            query: its text.
            k: length of the lists.
            threads: threads of search.
            label: where labels come from, instead of the searcher's re-ranker.

        Example:
            for found in searcher.rounds("do statins prevent stroke"):
                print(len(found.labels), [hit.docid for hit in found.hits])
        """
        if k < 1:
            raise TourError(f"the number of hits must be at least 1, not {k}.")
        if isinstance(query, np.ndarray):
            raise TourError("a query given as a vector has no text to label; give its text.")
        encoded, config, parts = self._prepared([query], ["query"], k, threads, label=label)
        grant = lone_grant(config) if config.shares_labels else self._from_purse(1)
        for outcome, round_ in rounds(encoded, config, grant=grant, **parts):
            ranking, labelled = rank(outcome, 0, config, hits=k), outcome.ledger.labelled(0)
            yield SearchRound(
                self._plain(ranking),
                ranking.ids,
                outcome.queries[0].copy(),
                int(outcome.updates[0]),
                dict(zip(labelled.ids.tolist(), labelled.labels.tolist(), strict=True)),
                round_.stops[0] if round_ else None,
            )
        self._count(outcome)

    def vectors_at(self, ids: Ids) -> Floats | None:
        """The vectors [m, d] at positions [m] of the index; None where passages would have to be encoded for it."""
        if isinstance(self._vectors, PassageVectors):
            return None
        self._vectors = self._vectors or self._open_vectors(None)
        return self._fetch(ids)

    def optimised(self, queries: list[str] | list[dict[str, Any]], *, threads: int = 1) -> Floats:
        """The optimised vectors [n, d] of the queries."""
        if not queries:
            return np.empty((0, self.searcher.dimension), dtype=np.float32)
        return self._optimise(queries, [str(row) for row in range(len(queries))], self.config.depth, threads).queries

    def share_labels(
        self, queries: Sequence[Any], q_ids: Sequence[str], k: int = 10, threads: int = 1, *, batch_size: int = 64
    ) -> SharedLabels | None:
        """How the queries of a run share their labels, for `batch_run` with parts of it; None without `mean_budget`.

        The labels are bought here, and `batch_run` uses them. The result does not depend on `batch_size`, the number of
        queries that advance together.
        """
        return self._share_labels(queries, q_ids, k, threads, batch_size) if self.config.shares_labels else None

    def _share_labels(
        self, queries: Sequence[Any], q_ids: Sequence[str], k: int, threads: int, batch_size: int
    ) -> SharedLabels:
        def explore(some: list[Any], ids: list[str], grant: Grant, labels: Labels) -> None:
            encoded, config, parts = self._prepared(some, ids, k, threads, labels=labels)
            optimise(encoded, config, grant=grant, **parts)

        with self.costs.stage("update"):
            return share_labels(queries, q_ids, self.config, explore, batch_size=batch_size)

    def _optimise(
        self, queries: Any, q_ids: list[str], k: int, threads: int, shared: SharedLabels | None = None
    ) -> Outcome:
        grant: Grant | None = None
        if self.config.shares_labels and not isinstance(queries, np.ndarray):
            shared = shared or self._share_labels(queries, q_ids, k, threads, len(q_ids))
            grant = shared.ration(q_ids)
        elif not isinstance(queries, np.ndarray):
            grant = self._from_purse(len(q_ids))
        encoded, config, parts = self._prepared(queries, q_ids, k, threads, labels=shared.labels if shared else None)
        observe = self._observe
        watch = (lambda round_: observe(round_, q_ids)) if observe else None
        outcome = optimise(encoded, config, grant=grant, observe=watch, **parts)
        self._count(outcome)
        return outcome

    def _from_purse(self, queries: int) -> Grant | None:
        """What grants labels to so many queries that arrive now; None where each has a budget of its own."""
        if self._purse is None:
            return None
        self._purse.arrive(queries)
        return self._purse.grant

    def _prepared(
        self,
        queries: Any,
        q_ids: list[str],
        k: int,
        threads: int,
        *,
        label: Label | None = None,
        labels: Labels | None = None,
    ) -> tuple[Floats, TourConfig, dict[str, Any]]:
        """The encoded queries [n, d], the settings, and what the loop works with.

        Args:
            queries: n texts or dicts, or vectors [n, d].
            q_ids: their ids.
            k: hits that are asked for.
            threads: threads of search.
            label: where labels come from, instead of the searcher's re-ranker.
            labels: those that are known already; new ones are added.
        """
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

        def bought(some: list[str], ids: Ids) -> Floats:
            return self._score(some, ids, label)

        score = bought if labels is None else remembering(labels, bought)
        return encoded, config, {
            "search": lambda rows, vectors: self._search(
                _finite(vectors, [q_ids[row] for row in rows]), max(k, self._least_hits), own[rows], threads
            ),
            "signals": self._found(texts, own) if texts else (),
            "vectors": self._fetch,
            "score": lambda rows, ids: score([texts[row] for row in rows], ids),
            "scale": self._scale,
        }  # fmt: skip

    def _count(self, outcome: Outcome) -> None:
        ledger = outcome.ledger
        self.costs.add(
            queries=len(outcome.queries),
            updates=int(outcome.updates.sum()),
            pairs=ledger.bought,
            reused=ledger.requested - ledger.bought,
        )

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

    def _score(self, queries: list[str], ids: Ids, label: Label | None = None) -> Floats:
        assert self._reranker is not None and self._texts is not None
        with self.costs.stage("texts"):
            if isinstance(self._texts, StoredTexts):
                self._texts.load([self._docid(id_) for id_ in ids.tolist()])
            pairs = [(query, self._text(self._docid(id_))) for query, id_ in zip(queries, ids.tolist(), strict=True)]
        if label is not None:
            with self.costs.stage("label"):
                return label(pairs)
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

    def _plain(self, ranking: Ranking) -> HitList:
        return HitList(
            self.hit_class(self._docid(id_), score, texts=self._texts)
            for id_, score in zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True)
        )

    def _with_vectors(self, ranking: Ranking) -> HitList:
        fetch = self._vectors or self._open_vectors(None)
        return HitList(
            self.vector_hit_class(hit.docid, hit.score, vector, texts=self._texts)
            for hit, vector in zip(self._plain(ranking), fetch(ranking.ids), strict=True)
        )

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
