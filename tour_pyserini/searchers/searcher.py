"""TouR as a searcher: queries are encoded, optimised at test time, and ranked. Nothing here needs Pyserini or Java."""

import copy
import logging
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids, Ranking
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import Fusion, SignalHits
from tour_pyserini.core.method import Outcome, Query, StopReason
from tour_pyserini.core.scheduler import LabelTasks, Scheduler, Task
from tour_pyserini.data.texts import open_texts, read_text
from tour_pyserini.encoders.encoder import PassageVectors, encode_queries, text_of
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.searchers.hits import Hit, HitList
from tour_pyserini.searchers.searched_index import as_signals, hybrid_parts, in_memory_index
from tour_pyserini.stores.filters import FieldTable, Filter, Within, search_each
from tour_pyserini.stores.signals import HITS as SIGNAL_HITS
from tour_pyserini.stores.signals import Signal, check_documents, found_by
from tour_pyserini.stores.store import as_store
from tour_pyserini.stores.vectors import EncodedCorpus, in_order, open_vectors
from tour_pyserini.support.costs import Costs

if TYPE_CHECKING:
    from tour_pyserini.rerankers.reranker import Pair
    from tour_pyserini.searchers.label_time import LabelCost

log = logging.getLogger(__name__)

_FILTERS = 16  # whose documents are remembered

Observer = Callable[[str, Task], None]
"""Called with the id of a query and its task, when it has ended: its `rounds` are the trace."""


class SearchRound(NamedTuple):
    """The list of a query before its first labels, or after the labels of a round.

    Attributes:
        hits: the list so far, best first.
        vector: [d] the query's vector.
        updates: how often it was changed.
        labels: all labels so far, by position in the index.
        stop: why the search ends with this list; None when it goes on.
    """

    hits: list[Any]
    vector: Floats
    updates: int
    labels: dict[int, float]
    stop: StopReason | None


class TourSearcher:
    """A searcher whose queries are optimised at test time.

    Made from a FaissSearcher of Pyserini's, it is a FaissSearcher itself: it has its methods, signatures and results,
    so it can be used wherever one can. Made from a HybridSearcher, it is one too, and searches with both parts of it. A
    query given as a vector has no text to label and is searched as it is.
    `TourSearcher.from_vectors` needs neither Pyserini nor files.

    Attributes:
        searcher: where candidates come from.
        config: what it computes.
        costs: what it has cost so far.

    Example:
        searcher = TourSearcher(FaissSearcher("indexes/scifact", encoder), "default", "scifact/corpus.jsonl")
        hits = searcher.search("do statins prevent stroke", k=100)
        print(hits[0].docid, hits[0].score, hits[0].text)
    """

    hit_class: ClassVar[type[Any]] = Hit

    def __new__(cls, searcher: Any = None, *_: Any, **__: Any) -> Self:
        """As `pathlib.Path` does, choose the class that fits: a FaissSearcher gives a FaissSearcher."""
        # Whoever has a FaissSearcher has imported this module already, so that nothing is imported for the others.
        pyserini = sys.modules.get("pyserini.search.faiss")
        dense = hybrid_parts(searcher)[0]
        if cls is TourSearcher and pyserini is not None and isinstance(dense, pyserini.FaissSearcher):
            from tour_pyserini.searchers.pyserini_interfaces import TourFaissSearcher

            return super().__new__(TourFaissSearcher)
        return super().__new__(cls)

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
        min_relevance: float | None = None,
        observe: Observer | None = None,
        filter: Any = None,
        fields: Mapping[str, Mapping[str, Any]] | FieldTable | None = None,
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
                Those of an encoded corpus also put the hits of a compressed index in exact order, for every method.
            signals: what finds candidates beside the index, each anything `as_signals` takes: an index with BM25, a
                Lucene index, another searcher of Pyserini's, or a function `(queries, k) -> docids, scores`.
            remove_query: never retrieve the document whose docid is the query's id.
            min_relevance: hits with a lower probability of relevance are left out of all lists.
            observe: called with each query that has ended.
            filter: which documents any search may find, see `search`; a search's own filter holds too.
            fields: what filters read of each document, by docid; None: what the corpus file gives beside title and
                text.
        """
        searcher, more = hybrid_parts(searcher)
        if not hasattr(searcher, "index") or not hasattr(searcher, "docids"):
            raise TourError(f"TouR searches with a FaissSearcher, not {type(searcher).__name__}.")
        self.searcher = searcher
        self.config = _as_config(config)
        self.costs = Costs()
        self._check_relevance(min_relevance)
        self.min_relevance = min_relevance
        self._observe, self._remove_query = observe, remove_query
        self._texts = open_texts(texts) if texts is not None else None
        if self.config.most_labels and self._texts is None:
            raise TourError(f"the method {self.config.method} reads passages: give their texts (the corpus).")
        self._reranker: Any = None
        if self.config.most_labels:
            from tour_pyserini.rerankers.loading import load_reranker

            self._reranker = load_reranker(reranker)
        self._label_cost: LabelCost | None = None  # measured by the first search with a deadline

        self._store = as_store(searcher.index)
        if hasattr(vectors, "encode") and not isinstance(vectors, str):
            if self._texts is None:
                raise TourError("passages cannot be encoded as they are met without their texts; give the corpus too.")
            dimension = self._store.dimension
            vectors = PassageVectors(vectors, docids=searcher.docids, texts=self._texts, dimension=dimension)
        self._vector_source = vectors
        stored = isinstance(vectors, str | os.PathLike | EncodedCorpus)
        self._searched = in_order(self._store, self._vectors if stored else None)
        self._fields = fields if isinstance(fields, FieldTable) else FieldTable(searcher.docids, self._texts, fields)
        self._filter = Filter() if filter is None else Filter.parse(filter)
        self._passing: dict[tuple[str, str], Within] = {}  # of the last filters
        self._signals = self._opened_signals([*more, *as_signals(signals)])

    @classmethod
    def from_vectors(
        cls,
        vectors: Any,
        texts: Mapping[str, str] | Iterable[str] | str | os.PathLike[str],
        encode: Any,
        score: Any = None,
        config: TourConfig | None = None,
        *,
        docids: Iterable[str] | None = None,
        signals: Sequence[Any] = (),
        remove_query: bool = False,
        observe: Observer | None = None,
        min_relevance: float | None = None,
        fields: Mapping[str, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> "TourSearcher":
        """Search vectors that are in memory.

        Args:
            vectors: the passages' vectors: a matrix [n, d], or a FAISS index of inner products.
            texts: the passages: a list in the order of the vectors, or a mapping from docid to text, in their order
                too unless `docids` says otherwise. The file of a BEIR corpus is such a mapping.
            encode: a function from a query to its vector [d], or from a list of queries to their vectors [n, d]; or
                an object with `encode_query` or `encode`, such as a SentenceTransformer. Queries are encoded one at
                a time, so that no query's vector depends on another query.
            score: a function from a list of pairs (query, passage) to their scores, raw logits if there are such; or
                anything that `load_reranker` takes, such as a CrossEncoder. None for methods that do not label.
            config: the method and its settings.
            docids: the name of each vector; without it, the keys of `texts`, or positions "0", "1", ... in a list.
            signals: what finds candidates beside the vectors; this and what follows is as for `TourSearcher`.
            remove_query: never retrieve the document whose docid is the query's id.
            observe: called with each query that has ended.
            min_relevance: hits with a lower probability of relevance are left out of all lists.
            fields: what filters read of each document, by docid.
            settings: settings by name, over `config` or the defaults: `method="hard", depth=20`.

        Raises:
            TourError: if something has the wrong type or size, or is not finite.

        Example:
            searcher = TourSearcher.from_vectors(matrix, texts, model.encode, CrossEncoder(name), budget=30)
            print(searcher.search("do statins prevent stroke", k=10)[0].text)
        """
        config = _as_config(config).replace(**settings)
        if score is None and config.most_labels:
            raise TourError(f"the method {config.method} needs labels: give score, a function or a re-ranker.")
        index, passages = in_memory_index(vectors, texts, encode, docids=docids)
        options: Any = {"remove_query": remove_query, "observe": observe, "min_relevance": min_relevance}
        return TourSearcher(index, score, passages, config, signals=signals, fields=fields, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "searcher":  # an object being copied or unpickled has no attribute yet
            raise AttributeError(name)
        return getattr(self.searcher, name)

    def with_signals(self, *signals: Any) -> Self:
        """The same search with further signals, each anything `as_signals` takes; models and costs are shared."""
        other = copy.copy(self)
        other._signals = [*self._signals, *self._opened_signals(signals)]
        return other

    def only(self, filter: Any) -> Self:
        """The same search among those documents alone that pass a filter; models, index and costs are shared."""
        other = copy.copy(self)
        other._filter = self._filter & Filter.parse(filter)
        return other

    def found(self) -> Ids:
        """The positions of all documents that a search may find."""
        within = self._within(None)
        return np.arange(self._store.size) if within is None else within.ids

    def finds(self, docid: str) -> bool:
        """Whether a search may find a document, which need not exist."""
        if (within := self._within(None)) is None:
            return True
        known: Any = self.searcher.docids  # a vector database is asked for this one alone
        positions = known.positions([docid]) if hasattr(self._store, "within") else self._fields.positions
        return bool(within.passes(np.array([positions.get(docid, -1)]))[0])

    def _opened_signals(self, signals: Sequence[Any]) -> list[Signal]:
        opened = as_signals(signals)
        for signal in opened:
            check_documents(signal, self._fields.positions)
        return opened

    # Searching

    def search(
        self,
        query: str | np.ndarray | dict[str, Any],
        k: int = 10,
        threads: int = 1,
        remove_dups: bool = False,
        return_vector: bool = False,
        *,
        deadline: float | None = None,
        budget: int | None = None,
        filter: Any = None,
        min_relevance: float | None = None,
    ) -> Any:
        """Search with one query; FaissSearcher's arguments and results, and four more.

        Args:
            query: its text, its fields, or its vector [d].
            k: length of the list.
            threads: threads of search.
            remove_dups: keep each docid once.
            return_vector: whether hits carry their vectors.
            deadline: seconds after which the best list so far is returned; labels end in time for that. The first
                search also loads the model, and measures what labels cost.
            budget: most labels of this query, for methods that have a budget.
            filter: which documents may be found: a condition on the fields that the corpus gives beside title and
                text, `{"year": {"gte": 2020}, "lang": "en"}`; their docids; or what a vector database understands.
            min_relevance: leave out hits whose probability of relevance is lower; needs settings that `tune` wrote.

        Returns:
            The hits, best first; where all were left out, `hits.nothing` says why. With `return_vector`, the optimised
            query vector [1, d] and hits that carry theirs.
        """
        self._check_relevance(min_relevance)
        queries = query.reshape(1, -1) if isinstance(query, np.ndarray) else [query]
        config = self._config(budget)
        tasks = self.run(queries, ["query"], k, threads, deadline=deadline, config=config, filter=filter)
        hits = self.hits_of(tasks[0], k, vectors=return_vector, min_relevance=min_relevance)
        if remove_dups and hits:
            best = {hit.docid: hit for hit in reversed(hits)}
            hits = HitList(hit for hit in hits if best[hit.docid] is hit)
        return (tasks[0].result.vector[None], hits) if return_vector else hits

    def batch_search(
        self,
        queries: list[str] | np.ndarray | list[dict[str, Any]],
        q_ids: list[str],
        k: int = 10,
        threads: int = 1,
        return_vector: bool = False,
        *,
        filter: Any = None,
    ) -> Any:
        """Search with many queries, which advance together; FaissSearcher's arguments and results, and `filter`.

        Returns:
            Hits by query id; with `return_vector`, the optimised query vectors [n, d] and hits that carry theirs.
        """
        vectors, results = self.batch_run(queries, q_ids, k, threads, hit_vectors=return_vector, filter=filter)
        return (vectors, results) if return_vector else results

    def batch_run(
        self,
        queries: Any,
        q_ids: list[str],
        k: int = 10,
        threads: int = 1,
        *,
        hit_vectors: bool = False,
        filter: Any = None,
    ) -> tuple[Floats, Mapping[str, list[Any]]]:
        """The optimised vectors [n, d] and the hits by query id, which carry their own vectors when asked to."""
        twice, count = Counter(q_ids).most_common(1)[0] if q_ids else ("", 0)
        if count > 1:
            raise TourError(f"the query id {twice!r} is given twice; ids must be unique.")
        tasks = self.run(queries, q_ids, k, threads, filter=filter)
        with self.costs.stage("rank"):
            hits = {q_id: self.hits_of(task, k, vectors=hit_vectors) for q_id, task in zip(q_ids, tasks, strict=True)}
        return self._vectors_of(tasks), hits

    def rounds(
        self,
        query: str | dict[str, Any],
        k: int = 10,
        threads: int = 1,
        *,
        deadline: float | None = None,
        budget: int | None = None,
        filter: Any = None,
    ) -> Iterator[SearchRound]:
        """Search with one query and hand over every list on the way; the last one is what `search` returns.

        The first list comes before any label is asked for. Whoever stops asking pays for no more labels. The arguments
        are those of `search`.

        Example:
            for found in searcher.rounds("do statins prevent stroke"):
                print(len(found.labels), [hit.docid for hit in found.hits])
        """
        label = self._labeller(deadline)
        (task,) = self.tasks([query], ["query"], k, config=self._config(budget), filter=filter)
        scheduler = self.scheduler(threads)
        scheduler.advance([task])
        while task.waits_for_labels:
            yield self.round_so_far(task, scheduler, k)
            (labels,) = label([task])
            task.answer(labels)
            scheduler.advance([task])
        self._finish([task], ["query"])
        yield self.round_so_far(task, scheduler, k)

    def run(
        self,
        queries: Any,
        q_ids: Sequence[str],
        k: int,
        threads: int = 1,
        *,
        deadline: float | None = None,
        config: TourConfig | None = None,
        filter: Any = None,
    ) -> list[Task]:
        """The ended tasks of queries, which advance together.

        Args:
            queries: n texts or dicts, or vectors [n, d], which are searched as they are.
            q_ids: their ids.
            k: length of the lists.
            threads: threads of search.
            deadline: seconds after which they have to be there; None: they have time.
            config: the method and its settings, if not those of the searcher.
            filter: which documents may be found, see `search`.
        """
        if not len(queries):
            return []
        label = self._labeller(deadline)
        with self.costs.stage("update"):
            tasks = self.tasks(queries, q_ids, k, config=config, filter=filter)
            self.scheduler(threads).run(tasks, label)
        self._finish(tasks, q_ids)
        return tasks

    # The parts of a search, which a service uses one by one

    def tasks(
        self, queries: Any, q_ids: Sequence[str], k: int, *, config: TourConfig | None = None, filter: Any = None
    ) -> list[Task]:
        """The queries at the beginning of their way: encoded, with what further signals found."""
        if len(queries) != len(q_ids):
            raise TourError(f"{len(queries)} queries came with {len(q_ids)} ids; give one id per query.")
        if k < 1:
            raise TourError(f"the number of hits must be at least 1, not {k}.")
        config, excluded, within = config or self.config, self._own_documents(q_ids), self._within(filter)
        if isinstance(queries, np.ndarray):
            log.info("queries given as vectors carry no text to label and are searched as they are")
            config, texts, signals = TourConfig("dense"), [""] * len(queries), list[SignalHits]()
        else:
            texts = [text_of(*query) for query in zip(queries, q_ids, strict=True)]
            signals = self._ask_signals([str(q_id) for q_id in q_ids], texts, excluded, within)
        with self.costs.stage("encode"):
            vectors = encode_queries(self.searcher.query_encoder, queries, q_ids, self.searcher.dimension)
        return [
            Task(
                config.chosen,
                config.settings,
                Query(
                    vector,
                    k,
                    Fusion([signal.of_query(row) for signal in signals], weight=config.settings.signal_weight),
                    excluded=int(excluded[row]),
                    within=within,
                    name=str(q_ids[row]),
                    text=texts[row],
                ),
            )
            for row, vector in enumerate(vectors)
        ]

    def scheduler(self, threads: int = 1) -> Scheduler:
        """What advances tasks: searches with so many threads, and the vectors of candidates."""

        def search(vectors: Floats, k: int, queries: Sequence[Query]) -> Hits:
            with self.costs.stage("search"):
                return self._search(vectors, k, queries, threads)

        return Scheduler(search, self.fetch)

    def nearest(self, query: Query, vector: Floats, k: int) -> Ranking:
        """The k documents nearest to a vector [d] of a query; further signals take no part."""
        ids, similarities = (rows[0] for rows in self._search(vector[None], k, [query], 1))
        return Ranking(ids[ids >= 0], similarities[ids >= 0])

    def pairs(self, task: Task) -> "list[Pair]":
        """What the re-ranker has to read for the labels that a task waits for."""
        docids = [self.searcher.docids[id_] for id_ in task.wanted_labels.tolist()]
        if load := getattr(self._texts, "load", None):  # a vector database gives many passages in one request
            load(docids)
        return [(task.query.text, self._passage(docid)) for docid in docids]

    def hits(self, outcome: Outcome, k: int, *, vectors: bool = False) -> HitList:
        """The first k documents of a final list, with their vectors if asked to."""
        ids, scores = outcome.ranking.first(k)
        own = self.fetch(ids) if vectors and len(ids) else [None] * len(ids)
        return HitList(
            self.hit_class(self.searcher.docids[id_], score, vector, position=id_, texts=self._texts)
            for id_, score, vector in zip(ids.tolist(), scores.tolist(), own, strict=True)
        )

    def hits_of(self, task: Task, k: int, *, vectors: bool = False, min_relevance: float | None = None) -> HitList:
        """The first k documents of a task that has ended, with probabilities of relevance if settings have them."""
        hits = self.hits(task.result, k, vectors=vectors)
        least = self.min_relevance if min_relevance is None else min_relevance
        self._check_relevance(least, task.query.text)
        if self.config.calibration is None or not task.query.text:
            return hits
        from tour_pyserini.evaluation.relevance_probability import hit_features, probabilities

        told = probabilities(self.config.calibration, hit_features(task, k))
        for hit, relevance in zip(hits, told.tolist(), strict=True):
            hit.relevance = relevance
        kept = HitList(hit for hit in hits if hit.relevance >= (least or 0.0))
        if hits and not kept:
            kept.nothing = f"the best probability of relevance is {told.max():.2f}, and {least:g} is asked for"
        return kept

    def _check_relevance(self, least: float | None, text: str = "any") -> None:
        """Refuse a least probability where there is none; without a text, there were no labels."""
        if least and (self.config.calibration is None or not text):
            raise RequestError("there are no probabilities of relevance; give the settings that `tune` wrote (config).")
        if not 0 <= (least or 0) <= 1:
            raise RequestError(f"a probability of relevance is between 0 and 1, not {least}.")

    def round_so_far(
        self, task: Task, scheduler: Scheduler, k: int, *, min_relevance: float | None = None
    ) -> SearchRound:
        """The list that a task would end with if it got no more labels."""
        outcome = task.outcome or scheduler.preview(task)
        hits = self.hits_of(task, k, min_relevance=min_relevance) if task.outcome else self.hits(outcome, k)
        stop = outcome.stop if task.outcome else None
        return SearchRound(hits, outcome.vector, task.updates, task.labels, stop)

    @property
    def index_record(self) -> dict[str, Any]:
        """What the record of a run has of the index: the order of hits, and what a vector database tells of itself."""
        in_order = self._store.exact or self._searched is not self._store
        describe = getattr(self.searcher.index, "description", None)
        return {"order": "exact" if in_order else "index", **({"store": describe()} if describe else {})}

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] at positions [m] of the index."""
        vectors = self._vectors
        with self.costs.stage("vectors"):
            return vectors(ids)

    @cached_property
    def _vectors(self) -> Callable[[Ids], Floats]:
        """Opened when they are needed first."""
        return open_vectors(self._vector_source, store=self._store, docids=self.searcher.docids)

    @property
    def encodes_passages(self) -> bool:
        """Whether passages are encoded for their vectors, as they are met."""
        return isinstance(self._vector_source, PassageVectors)

    def _config(self, budget: int | None) -> TourConfig:
        return self.config if budget is None else self.config.replace(budget=budget)

    def _labeller(self, deadline: float | None) -> LabelTasks:
        """What labels tasks, in one call of the re-ranker each time; with a deadline in seconds, as long as it can.

        As much time as the first retrieval took is left for the last one.
        """
        from tour_pyserini.rerankers.reranker import score_pairs_counted, spent_by

        start, until = time.monotonic(), math.inf
        if deadline is not None:
            from tour_pyserini.searchers.label_time import LabelCost, score_until

            cost = self._label_cost = self._label_cost or LabelCost()

        def label(tasks: Sequence[Task]) -> list[Floats]:
            nonlocal until
            if self._reranker is None:
                raise TourError(
                    f"the method {self.config.method} asks for labels: its settings' most_labels must say so."
                )
            if deadline is not None and until == math.inf:
                until = start + deadline - (time.monotonic() - start)
            with self.costs.stage("texts"):
                pairs = [pair for task in tasks for pair in self.pairs(task)]
            with self.costs.stage("label"):
                if deadline is None:
                    scores, computed = score_pairs_counted(self._reranker, pairs)
                else:
                    scores, computed = score_until(self._reranker, pairs, until, cost)
            self.costs.add(scored=computed)
            self.costs.spend(spent_by(self._reranker))
            return np.split(scores, np.cumsum([len(task.wanted_labels) for task in tasks])[:-1])

        return label

    def _finish(self, tasks: Sequence[Task], q_ids: Sequence[str]) -> None:
        self.costs.add(
            queries=len(tasks),
            updates=sum(task.updates for task in tasks),
            pairs=sum(len(one.ids) for task in tasks for one in task.rounds),
        )
        if self._observe:
            for q_id, task in zip(q_ids, tasks, strict=True):
                self._observe(str(q_id), task)

    def _vectors_of(self, tasks: Sequence[Task]) -> Floats:
        if not tasks:
            return np.empty((0, self.searcher.dimension), dtype=np.float32)
        return np.stack([task.result.vector for task in tasks])

    def _search(self, vectors: Floats, k: int, queries: Sequence[Query], threads: int) -> Hits:
        """The hits [n, k] of vectors [n, d] of queries, each within what it may find and without what it excludes."""
        excluded = np.array([query.excluded for query in queries], dtype=np.int64)
        some = bool((excluded >= 0).any())
        hits = search_each(self._searched, vectors, k + some, [query.within for query in queries], threads=threads)
        return _without(excluded, hits, k) if some else hits

    def _within(self, given: Any) -> Within | None:
        """The documents that pass a filter and that of all searches, None: all; one object for equal filters."""
        fixed, wanted = self._filter, Filter() if given is None else Filter.parse(given)
        if fixed == wanted == Filter():
            return None
        key = fixed.key, wanted.key
        within = self._passing.get(key)
        if within is None:
            own = getattr(self._store, "within", None)  # a vector database
            within = own(fixed & wanted) if own else self._fields.passing(wanted, self._fields.passing(fixed))
        self._passing[key] = within
        for old in list(self._passing)[:-_FILTERS]:  # other threads may do the same
            self._passing.pop(old, None)
        return within

    def _own_documents(self, q_ids: Sequence[Any]) -> Ids:
        """The positions [n] of the documents that must not be retrieved for the queries; -1 where there is none."""
        positions = self._fields.positions if self._remove_query else {}
        return np.array([positions.get(str(q_id), -1) for q_id in q_ids], dtype=np.int64)

    def _ask_signals(
        self, q_ids: list[str], texts: list[str], excluded: Ids, within: Within | None
    ) -> list[SignalHits]:
        """What each signal finds for the queries, without the document that each excludes."""
        with self.costs.stage("search"):
            asked = [q_ids if getattr(signal, "by_id", False) else texts for signal in self._signals]
            found = [
                found_by(signal, queries, SIGNAL_HITS + 1, self._fields.positions, within)
                for signal, queries in zip(self._signals, asked, strict=True)
            ]
            kept = (_without(excluded, Hits(one.ids, one.scores), SIGNAL_HITS) for one in found)
            return [SignalHits(*hits, one.absent) for hits, one in zip(kept, found, strict=True)]

    def _passage(self, docid: str) -> str:
        """What the re-ranker reads of a document."""
        return read_text(self._texts or {}, docid)


def _as_config(config: Any) -> TourConfig:
    if not isinstance(config, TourConfig | None):
        raise TourError(f"config is a TourConfig, not {type(config).__name__}: TourConfig.parse reads text.")
    return config or TourConfig()


def _without(excluded: Ids, hits: Hits, k: int) -> Hits:
    """The first k of the hits [n, k + 1] without the document that each query excludes [n]; -1: none."""
    # A stable sort on "is the excluded document" moves it to the end, where the extra column is cut off.
    order = np.argsort((hits.ids == excluded[:, None]) & (excluded[:, None] >= 0), axis=1, kind="stable")
    ids = np.take_along_axis(hits.ids, order, axis=1)[:, :k]
    similarities = np.take_along_axis(hits.similarities, order, axis=1)[:, :k]
    left_out = ids == excluded[:, None]
    return Hits(np.where(left_out, -1, ids), np.where(left_out, -np.inf, similarities))
