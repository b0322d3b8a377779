"""Hits of compressed indexes in exact order: the same rule for every method."""

import faiss
import pytest
from toy_collection import DIMENSION, HashReranker, ToyCollection

from tour_pyserini import FaissSearcher, TourConfig, TourSearcher
from tour_pyserini.core.method import METHODS

INNER = faiss.METRIC_INNER_PRODUCT


def pq():
    return faiss.IndexPQ(DIMENSION, 2, 3, INNER)


def hnsw_pq():
    index = faiss.IndexHNSWPQ(DIMENSION, 2, 32, 3, INNER)
    index.hnsw.efConstruction = index.hnsw.efSearch = 240  # all documents are found
    return index


KINDS = [pq, hnsw_pq]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("flat"))


@pytest.fixture(scope="module")
def coarse(collection, tmp_path_factory):
    """The folders of compressed indexes, by their kind's name."""
    return {kind.__name__: collection.write(kind(), tmp_path_factory.mktemp(kind.__name__)) for kind in KINDS}


def found(collection, folder, method, **options):
    """The docids of every query, by its id."""
    searcher = TourSearcher(
        FaissSearcher(str(folder), collection.encoder),
        HashReranker(),
        collection.texts,
        TourConfig(method),
        **options,
    )
    hits = searcher.batch_search(collection.queries, collection.q_ids, k=60)
    return {q_id: [hit.docid for hit in hits[q_id]] for q_id in collection.q_ids}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_what_it_finds_on_the_exact_index(collection, coarse, method, kind):
    # Sixty documents are fewer than what is re-ordered: the order is that of the exact vectors throughout.
    folder = coarse[kind.__name__]
    exact = found(collection, collection.folder, method)
    assert found(collection, folder, method, vectors=str(collection.folder)) == exact
