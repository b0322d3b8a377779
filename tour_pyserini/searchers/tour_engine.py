"""TouR over an index: encode queries, optimise them, rank. Nothing here needs Pyserini or Java."""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.loop import StopReason
from tour_pyserini.core.purse import Purse
from tour_pyserini.core.ranking import Ranking, rank
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, QueryAdapter
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.searchers.dense_signal import dense_part, listed, sparse_parts
from tour_pyserini.searchers.hits import Hit, HitList, VectorHit
from tour_pyserini.searchers.optimiser import Batch, Observer, QueryOptimiser
from tour_pyserini.searchers.passage_labels import Label, PassageLabels
from tour_pyserini.searchers.retrieval import Retrieval
from tour_pyserini.searchers.shared_labels import SharedLabels, check_purse
from tour_pyserini.stores.index_scales import given_scale
from tour_pyserini.support.costs import Costs


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
        self.config = config or TourConfig()
        self.costs = Costs()
        adapted = None if adapter is None else AdaptedQueryEncoder(searcher.query_encoder, adapter)
        method = self.config.method_class
        if method.needs_labels and texts is None:
            raise TourError(f"the method {self.config.method} reads passages: give their texts (the corpus).")
        self._texts = open_texts(texts) if texts is not None else None
        labels = self._labels(load_reranker(reranker) if method.needs_labels else None)
        scale = given_scale(scale, reranker=getattr(labels.reranker, "fingerprint", None))
        retrieval = self._retrieval(vectors=vectors, order=order, signals=signals, remove_query=remove_query)
        if purse is not None:
            check_purse(purse, self.config)
        self._optimiser = QueryOptimiser(
            config=self.config,
            searcher=searcher,
            adapted=adapted,
            retrieval=retrieval,
            labels=labels,
            scale=scale,
            purse=purse,
            observe=observe,
            costs=self.costs,
        )

    def __getattr__(self, name: str) -> Any:
        if name == "searcher":  # an object being copied or unpickled has no attribute yet
            raise AttributeError(name)
        return getattr(self.searcher, name)

    @property
    def order(self) -> str:
        """The order of hits: `exact`, or that of a compressed `index`."""
        return self._optimiser.retrieval.order

    def with_signals(self, *signals: Any) -> Self:
        """The same search with further signals, each anything `as_signal` takes; models and costs are shared."""
        other = copy.copy(self)
        other._optimiser = replace(self._optimiser, retrieval=self._optimiser.retrieval.with_signals(signals))
        return other

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
            outcome = self._optimiser.optimise(Batch(queries, q_ids, k, threads), shared)
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
        for outcome, round_ in self._optimiser.rounds(Batch([query], ["query"], k, threads), label):
            ranking, labelled = rank(outcome, 0, self.config, hits=k), outcome.ledger.labelled(0)
            yield SearchRound(
                self._plain(ranking),
                ranking.ids,
                outcome.queries[0].copy(),
                int(outcome.updates[0]),
                dict(zip(labelled.ids.tolist(), labelled.labels.tolist(), strict=True)),
                round_.stops[0] if round_ else None,
            )

    def vectors_at(self, ids: Ids) -> Floats | None:
        """The vectors [m, d] at positions [m] of the index; None where passages would have to be encoded for it."""
        retrieval = self._optimiser.retrieval
        return None if retrieval.encodes else retrieval.vectors(ids)

    def optimised(self, queries: list[str] | list[dict[str, Any]], *, threads: int = 1) -> Floats:
        """The optimised vectors [n, d] of the queries."""
        if not queries:
            return np.empty((0, self.searcher.dimension), dtype=np.float32)
        q_ids = [str(row) for row in range(len(queries))]
        return self._optimiser.optimise(Batch(queries, q_ids, self.config.depth, threads)).queries

    def share_labels(
        self, queries: Sequence[Any], q_ids: Sequence[str], k: int = 10, threads: int = 1, *, batch_size: int = 64
    ) -> SharedLabels | None:
        """How the queries of a run share their labels, for `batch_run` with parts of it; None without `mean_budget`.

        The labels are bought here, and `batch_run` uses them. The result does not depend on `batch_size`, the number of
        queries that advance together.
        """
        if not self.config.shares_labels:
            return None
        return self._optimiser.share_labels(Batch(queries, list(q_ids), k, threads), batch_size=batch_size)

    def _retrieval(self, **options: Any) -> Retrieval:
        return Retrieval(self.searcher, self.config, self.costs, texts=self._texts, **options)

    def _labels(self, reranker: Any) -> PassageLabels:
        return PassageLabels(reranker, self._texts, self.searcher.docids, self.costs)

    def _plain(self, ranking: Ranking) -> HitList:
        return HitList(
            self.hit_class(self.searcher.docids[id_], score, texts=self._texts)
            for id_, score in zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True)
        )

    def _with_vectors(self, ranking: Ranking) -> HitList:
        vectors = self._optimiser.retrieval.vectors(ranking.ids)
        return HitList(
            self.vector_hit_class(hit.docid, hit.score, vector, texts=self._texts)
            for hit, vector in zip(self._plain(ranking), vectors, strict=True)
        )
