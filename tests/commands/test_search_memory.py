"""Batches of topics: a run's memory does not grow with the number of its topics."""

import gc
import io
import tracemalloc

import numpy as np
import pytest
from toy_collection import TableEncoder, ToyCollection, unit

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.data.runs import open_run
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
    sizes = []

    gc.freeze()
    tracemalloc.start()
    try:
        with open_run(output, hits=60) as write_hits:
            for first in range(0, queries, 16):
                batch = texts[first : first + 16]
                for topic, hits in searcher.batch_run(batch, batch, 60)[1].items():
                    write_hits(topic, hits)
                if first % 128 == 0:
                    gc.collect()  # what is held, without what Python has not collected yet
                    sizes.append(tracemalloc.get_traced_memory()[0])
        return max(sizes)
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def test_batches_are_written_and_forgotten(collection, tmp_path):
    most_held(collection, tmp_path / "warm.trec", 96)
    small, large = (most_held(collection, tmp_path / "run.trec", queries) for queries in (160, 640))
    assert (tmp_path / "run.trec").stat().st_size > 200_000
    assert large - small < (640 - 160) * 100  # a list of the topics, and nothing of what was found for them
