"""What is served: one index with its passages, encoder and re-ranker, opened once for all searches."""

import logging
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data import demo_collection
from tour_pyserini.data.run_records import is_phrase_index
from tour_pyserini.data.texts import Passage, open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.opening import Opener
from tour_pyserini.rerankers.reranker import Reranker, display_name, score_pairs
from tour_pyserini.searchers.label_time import LabelCost
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.service.judgement_file import Judgements
from tour_pyserini.service.serving import ServeRequest
from tour_pyserini.stores.filters import Filter
from tour_pyserini.stores.index_folder import has_bm25

log = logging.getLogger(__name__)

SEARCHERS = 32
"""Settings whose searchers are kept; models, index and texts are the same for all."""
_TRIED = (1, 4, 8)
"""Passages of the calls with which the cost of a label is first measured."""


class Collection:
    """An index, its passages, its encoder and its re-ranker.

    Attributes:
        request: what is served, and how.
        name: the name of the index.
        reranker: where labels come from, with the score cache.
        texts: docid to passage.
        judgements: what people judged; None: that is not kept.
        searcher: from settings to TouR with these settings, over the one index.
    """

    def __init__(
        self, request: ServeRequest, *, reranker: Reranker | None = None, judgements: Judgements | None = None
    ) -> None:
        """Open everything that is not given.

        Raises:
            TourError: if something is missing or wrong.
        """
        self._given = request
        topics = demo_collection.QUERIES if request.topics == "demo" else request.topics
        self._topics = {text: str(qid) for qid, text in read_topics(topics)} if topics else {}
        self.judgements = judgements
        if request.judgements and judgements is None:
            self.judgements = Judgements(request.judgements, self._topics)
        self.name = "demo" if request.topics == "demo" else Path(request.index or "").name
        request = request.completed()
        index = request.index
        assert index is not None
        if is_phrase_index(index):
            raise TourError(f"{index} is a phrase index, which cannot be served; give a passage index.")
        if not request.corpus:
            raise TourError("--corpus is missing: the service shows passages, and labels them.")
        if not self._given.has_signals and has_bm25(Path(index)):
            request = replace(request, sparse=(index,))  # all methods: what is compared has the same signals
        self.request = request
        self._opener = Opener()
        self.searcher = lru_cache(SEARCHERS)(self._new_searcher)
        self.texts = self._opener.open(open_texts, request.corpus)
        self.reranker = reranker or self._opener.reranker(request)
        self.size = int(self.searcher(request.config).searcher.num_docs)

    def reopened(self) -> "Collection":
        """The collection as its files are now, ready to search, with the same re-ranker and judgements."""
        new = Collection(self._given, reranker=self.reranker, judgements=self.judgements)
        new.try_search()
        return new

    def size_of(self, allowed: Filter | None) -> int:
        """How many documents a key may find, by its filter."""
        return self.size if allowed is None else len(self._searcher_of(allowed).found())

    def examples(self, count: int, allowed: Filter | None) -> list[str]:
        """Some queries to begin with: topics, which are for keys without a filter; or titles of documents."""
        if self._topics and allowed is None:
            return list(self._topics)[:: max(len(self._topics) // count, 1)][:count]
        searcher = self._searcher_of(allowed)
        docids, ids = searcher.searcher.docids, searcher.found().tolist()
        found = (self.text(docids[ids[i * len(ids) // count]]).parts[0] for i in range(min(count, len(ids))))
        return [title for title in dict.fromkeys(found) if title]

    def _searcher_of(self, allowed: Filter | None) -> TourSearcher:
        searcher = self.searcher(self.request.config)
        return searcher if allowed is None else searcher.only(allowed)

    @property
    def reranker_name(self) -> str:
        """The name of the re-ranker, without folders of this machine."""
        return Path(display_name(self.reranker)).name

    def _new_searcher(self, config: TourConfig) -> TourSearcher:
        """TouR with these settings, over the one index.

        Raises:
            RequestError: if what is served does not fit settings that a request chose.
        """
        try:
            request = replace(self.request, config=config)
            return self._opener.searcher(request, self.reranker if config.most_labels else None)
        except TourError as error:
            if config == self.request.config:
                raise
            # Such as an index without vectors; the files of the service are nobody else's business.
            log.warning("no search with %s: %s", config, error)
            raise RequestError(
                f"this service cannot search with the method {config.method} and these settings; its log says why."
            ) from error

    def finds(self, docid: str, allowed: Filter | None) -> bool:
        """Whether a key may find a document, by its filter."""
        return allowed is None or self._searcher_of(allowed).finds(docid)

    def text(self, docid: str) -> Passage:
        """The passage of a document.

        Raises:
            KeyError: if the collection has no such document.
        """
        passage = self.texts[docid]
        return passage if isinstance(passage, Passage) else Passage("", passage)

    def try_search(self) -> float:
        """Search once without labels, which loads what is still to be loaded; the seconds of a second time."""
        searcher, seconds = self.searcher(self.request.config), 0.0
        for _ in range(2):
            start = time.monotonic()
            scheduler = searcher.scheduler()
            (task,) = searcher.tasks(["a first search"], ["query"], 10)
            scheduler.advance([task])
            searcher.round_so_far(task, scheduler, 10)
            seconds = time.monotonic() - start
        return seconds

    def label_cost(self) -> LabelCost:
        """The cost of labels, measured on a few passages of the collection; it also loads the model."""
        request, inner = self.request, getattr(self.reranker, "reranker", self.reranker)
        cost = LabelCost(max_length=request.reranker_max_length)
        docids = self.searcher(request.config).searcher.docids
        some = [str(self.texts[docids[i * len(docids) // 16]]) for i in range(min(16, len(docids)))]
        score_pairs(inner, [(some[0][:100], some[0])])  # the first call of a model takes longer
        for count in (*_TRIED, *_TRIED):
            pairs = [(text[:60], text) for text in sorted(some, key=len)[:: 2 if count > 1 else 1][:count]]
            start = time.monotonic()
            score_pairs(inner, pairs)
            cost.learn(pairs, time.monotonic() - start)
        return cost
