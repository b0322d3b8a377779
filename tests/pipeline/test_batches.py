"""Batches of topics: a run's memory does not grow with the number of its topics."""

import gc
import io
import tracemalloc

import numpy as np
import pytest
from toy_collection import TableEncoder, ToyCollection, unit

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.batches import search_topics
from tour_pyserini.data.runs import write_run
from tour_pyserini.searchers.trace import Trace


class Lengths:
    def predict(self, pairs):
        return np.array([len(query) * 7 % 5 - len(text) for query, text in pairs], dtype=float)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("memory"))


def most_held(collection, output, queries):
    """Bytes that were held at most while so many queries were searched, traced and written."""
    texts = [f"query {number}" for number in range(queries)]
    collection.encoder = TableEncoder(dict(zip(texts, unit(np.random.default_rng(1), queries, 8), strict=True)))

    class Nowhere(io.TextIOBase):
        def write(self, text):
            return len(text)

    searcher = TourSearcher(
        *(collection.searcher(), Lengths(), collection.texts, TourConfig(depth=5)),
        observe=Trace(Nowhere(), collection.docids),
    )
    topics = list(zip(texts, texts, strict=True))
    sizes = []

    def measured(results):
        for number, result in enumerate(results):
            yield result
            if number % 64 == 0:
                gc.collect()  # what is held, without what Python has not collected yet
                sizes.append(tracemalloc.get_traced_memory()[0])

    gc.freeze()
    tracemalloc.start()
    try:
        write_run(measured(search_topics(searcher, topics, hits=60, batch_size=16, threads=1)), output, hits=60)
        return max(sizes)
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def test_batches_are_written_and_forgotten(collection, tmp_path):
    most_held(collection, tmp_path / "warm.trec", 96)
    small, large = (most_held(collection, tmp_path / "run.trec", queries) for queries in (384, 1536))
    assert (tmp_path / "run.trec").stat().st_size > 500_000
    assert large - small < (1536 - 384) * 100  # a list of the topics, and nothing of what was found for them
