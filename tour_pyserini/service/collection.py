"""What is served: one index with its passages, encoder and re-ranker, opened once for all searches."""

import threading
import time
from collections import OrderedDict
from collections.abc import Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.texts import check_texts, open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.engine_opening import open_reranker, stored_scale, tour_engine
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.request_completion import completed, sparse_signals
from tour_pyserini.pipeline.signal_settings import check_signal_settings
from tour_pyserini.rerankers.reranker import display_name, score_pairs
from tour_pyserini.searchers.opening import check_index
from tour_pyserini.searchers.tour_engine import TourEngine
from tour_pyserini.service.label_cost import LabelCost
from tour_pyserini.service.request_limits import blaming_request
from tour_pyserini.service.serve_request import ServeRequest
from tour_pyserini.stores.phrases.phrase_index import is_phrase_index

ENGINES = 32
"""Settings whose engines are kept; models, index and texts are the same for all."""
_TRIED = (1, 4, 8)
"""Passages of the calls with which the cost of a label is first measured."""


class OneAtATime:
    """A query encoder for several threads: tokenizers do not like to be used by two at a time."""

    def __init__(self, encoder: Any) -> None:
        self._encoder, self._lock = encoder, threading.Lock()

    def encode(self, query: Any, **options: Any) -> Any:
        """The vector [d] of a query."""
        with self._lock:
            return self._encoder.encode(query, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # an object being copied has no attribute yet
            raise AttributeError(name)
        value = getattr(self._encoder, name)
        return self._locked(value) if name == "encode_batch" else value

    def _locked(self, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with self._lock:
                return function(*arguments)

        return call


class Collection:
    """An index, its passages, its encoder and its re-ranker.

    Attributes:
        request: what is served, and how.
        name: the name of the index.
        reranker: where labels come from, with the score cache.
        texts: docid to passage.
    """

    def __init__(self, request: ServeRequest) -> None:
        """Open everything.

        Raises:
            TourError: if something is missing or wrong.
        """
        if request.topics not in ("", "demo"):
            raise TourError(f"a service has no topics; --topics can only be `demo`, not {request.topics!r}.")
        self.name = request.topics or Path(request.index or "").name
        self._sparse = request.sparse  # as given: each method decides what it stands for
        request = completed(request)  # type: ignore[assignment]  # the same class
        assert isinstance(request, ServeRequest) and request.index is not None
        if is_phrase_index(request.index):
            raise TourError(f"{request.index} is a phrase index, which cannot be served; give a passage index.")
        if not request.corpus:
            raise TourError("--corpus is missing: the service shows passages, and labels them.")
        check_index(request.index)
        check_texts(request.corpus)
        self.request = request
        self._opener = Opener()
        self._engines: OrderedDict[TourConfig, TourEngine] = OrderedDict()
        self._lock = threading.Lock()
        self.texts = self._opener.open(open_texts, request.corpus)
        self.reranker = open_reranker(request, self._opener)
        self.size = int(self.engine(request.config).searcher.num_docs)

    @property
    def reranker_name(self) -> str:
        """The name of the re-ranker, without folders of this machine."""
        return Path(display_name(self.reranker)).name

    @property
    def bytes(self) -> int:
        """Bytes of the index on disk."""
        return sum(file.stat().st_size for file in Path(self.request.index or "").glob("**/*") if file.is_file())

    def check_settings(self, given: Set[str], config: TourConfig) -> None:
        """Refuse settings that change nothing with, or without, the further signals that the method has here.

        Args:
            given: names of the settings that were asked for.
            config: the method and all settings.

        Raises:
            RequestError: if there is one.
        """
        signals = "the further signals of this service" if self._with(config).has_signals else None
        with blaming_request():
            check_signal_settings(given, config, signals=signals)

    def engine(self, config: TourConfig) -> TourEngine:
        """TouR with these settings, over the one index."""
        with self._lock:
            if config not in self._engines:
                request = self._with(config)
                labels = config.method_class.needs_labels
                engine = tour_engine(
                    request,
                    self.reranker if labels else None,
                    scale=stored_scale(request, self.reranker, self._opener) if labels else None,
                    opener=self._opener,
                )
                encoder = engine.searcher.query_encoder
                if not isinstance(encoder, OneAtATime):  # a prebuilt index is one searcher for all engines
                    engine.searcher.query_encoder = self._opener.open(OneAtATime, encoder)
                self._engines[config] = engine
                if len(self._engines) > ENGINES:
                    self._engines.popitem(last=False)
            self._engines.move_to_end(config)
            return self._engines[config]

    def _with(self, config: TourConfig) -> ServeRequest:
        """The request as `search` would complete it for these settings: a method may have signals of its own."""
        request = replace(self.request, config=config, sparse=self._sparse)
        return replace(request, sparse=sparse_signals(request))

    def text(self, docid: str) -> str:
        """The passage of a document.

        Raises:
            KeyError: if the collection has no such document.
        """
        return self.texts[docid]

    def try_search(self) -> float:
        """Search once without labels, which loads what is still to be loaded; the seconds of a second time."""
        engine, seconds = self.engine(self.request.config), 0.0
        for _ in range(2):
            start = time.monotonic()
            list(engine.rounds("a first search", label=lambda pairs: np.full(len(pairs), np.nan)))
            seconds = time.monotonic() - start
        return seconds

    def label_cost(self) -> LabelCost:
        """The cost of labels, measured on a few passages of the collection; it also loads the model."""
        request, inner = self.request, getattr(self.reranker, "reranker", self.reranker)
        description = getattr(inner, "description", None)
        cost = LabelCost(max_length=getattr(description, "max_length", None) or request.reranker_max_length)
        docids = self.engine(request.config).searcher.docids
        some = [str(self.texts[docids[i * len(docids) // 16]]) for i in range(min(16, len(docids)))]
        score_pairs(inner, [(some[0][:100], some[0])])  # the first call of a model takes longer
        for count in (*_TRIED, *_TRIED):
            pairs = [(text[:60], text) for text in sorted(some, key=len)[:: 2 if count > 1 else 1][:count]]
            start = time.monotonic()
            score_pairs(inner, pairs)
            cost.learn(pairs, time.monotonic() - start)
        return cost
