"""A collection in memory that can be searched like one that was opened: no file, no model."""

import threading
import time

import numpy as np
from toy_collection import DIMENSION, unit

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.data.texts import Passage
from tour_pyserini.searchers.label_time import LabelCost
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.judgement_file import Judgements
from tour_pyserini.service.serving import ServeRequest

DOCUMENTS = 40


def wait_until(condition):
    """Wait for something that another thread or process does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class GatedReranker:
    """Scores the length of a passage; a call waits until the gate is open. `calls` has the passages of each call."""

    def __init__(self):
        self.calls, self.gate, self.entered = [], threading.Event(), threading.Event()

    def predict(self, pairs):
        self.calls.append([passage for _, passage in pairs])
        self.entered.set()
        assert self.gate.wait(30)
        if any("bad" in query or "bad" in passage for query, passage in pairs):
            raise ValueError("bad passage")
        return np.array([float(len(passage)) for _, passage in pairs])


class InMemoryCollection(Collection):
    """40 passages of growing length, with `fields`; a query is encoded by its number, and `unknown` is not."""

    reranker_name = "gated"

    def __init__(self, *, fields=None, **request):
        self.name, self.size, self.fields, self._topics = "memory", DOCUMENTS, fields, {}
        random = np.random.default_rng(0)
        self.texts = {f"d{i}": "x" * (i + 1) for i in range(DOCUMENTS)}
        self.reranker = GatedReranker()
        self.request = ServeRequest(**{"config": TourConfig(depth=5), "reranker_threads": 1, **request})
        self.judgements = Judgements(self.request.judgements, {}) if self.request.judgements else None
        self._vectors, self._queries = unit(random, DOCUMENTS, DIMENSION), unit(random, 10, DIMENSION)

    def encode(self, query):
        if "unknown" in query:  # a text, or a list of one
            raise KeyError(query)
        return self._queries[len(query) % 10]

    def searcher(self, config):
        options = {"config": config, "fields": self.fields}
        return TourSearcher.from_vectors(self._vectors, self.texts, self.encode, self.reranker, **options)

    def text(self, docid):
        return Passage("", self.texts[docid])

    def try_search(self):
        return 0.0

    def label_cost(self):
        return LabelCost()
