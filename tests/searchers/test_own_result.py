"""A query's result depends on the query, the index, the models and the settings: on nothing else."""

from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
import pytest
from toy_collection import DIMENSION, HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourQueryEncoder, TourSearcher
from tour_pyserini.core.methods import METHODS

QUERIES = 23


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("toy"), documents=300, queries=QUERIES)


def searcher(collection, method="anchored", **options):
    return TourSearcher(collection.searcher(), HashReranker(), collection.texts, TourConfig(method), **options)


def lists(results):
    return {qid: [(hit.docid, hit.score) for hit in hits] for qid, hits in results.items()}


def batches(tour, collection, order, size):
    found = {}
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        queries, ids = [collection.queries[i] for i in chosen], [collection.q_ids[i] for i in chosen]
        found |= lists(tour.batch_search(queries, ids, k=40))
    return {qid: found[qid] for qid in collection.q_ids}


@pytest.mark.parametrize("method", METHODS)
def test_batches_order_repetition_and_threads_change_nothing(collection, method):
    tour = searcher(collection, method)
    expected = batches(tour, collection, range(QUERIES), QUERIES)
    shuffled = np.random.default_rng(1).permutation(QUERIES).tolist()
    for order, size in ((range(QUERIES), 1), (shuffled, 5), (shuffled, 1), (range(QUERIES), QUERIES)):
        assert batches(tour, collection, order, size) == expected
    with ThreadPoolExecutor(8) as pool:
        one_by_one = pool.map(lambda query: tour.search(query, k=40), collection.queries)
        found = [[(hit.docid, hit.score) for hit in hits] for hits in one_by_one]
    assert found == list(expected.values())


def test_the_optimised_vector_is_the_querys_own(collection):
    encoder = TourQueryEncoder(collection.encoder, collection.searcher(), HashReranker(), collection.texts)
    together = encoder.encode_batch(collection.queries)
    alone = np.stack([encoder.encode(query) for query in reversed(collection.queries)])[::-1]
    assert (together == alone).all()


def test_a_list_does_not_depend_on_how_many_hits_are_asked_for(collection):
    tour = searcher(collection)
    long = tour.search(collection.queries[0], k=60)
    short = tour.search(collection.queries[0], k=5)
    assert [(hit.docid, hit.score) for hit in short] == [(hit.docid, hit.score) for hit in long[:5]]


def test_a_calibrated_scale_is_used_as_it_is(collection):
    rounds = []
    tour = searcher(collection, scale=7.5, observe=lambda round_, ids: rounds.append(round_))
    tour.search(collection.queries[0], k=10)
    assert {float(scale) for round_ in rounds for scale in round_.candidates.scale} == {7.5}


def test_results_of_vectors_of_another_length_are_the_same_lists(collection, tmp_path):
    """Multiplying all vectors changes similarities, and nothing in a list."""
    larger = ToyCollection(tmp_path, documents=300, queries=QUERIES)
    larger.vectors *= 8
    larger.write(faiss.IndexFlatIP(DIMENSION), larger.folder)
    larger.encoder.table = {query: 8 * vector for query, vector in larger.encoder.table.items()}
    ours, theirs = searcher(collection), searcher(larger)
    for query in collection.queries:
        assert [hit.docid for hit in ours.search(query, k=20)] == [hit.docid for hit in theirs.search(query, k=20)]


def words(collection):
    """A signal: documents in an order that depends on the query's text alone."""

    def signal(queries, k):
        found = [np.random.default_rng(len(query) + ord(query[-1])).permutation(300)[:150] for query in queries]
        return [[collection.docids[i] for i in row[:k]] for row in found], [np.linspace(9, 1, 150)[:k]] * len(queries)

    return signal


@pytest.mark.parametrize("method", ["dense", "rerank", "anchored", "soft"])
def test_with_a_further_signal_too(collection, method):
    tour = searcher(collection, method, signals=[words(collection)])
    expected = batches(tour, collection, range(QUERIES), QUERIES)
    assert expected != batches(searcher(collection, method), collection, range(QUERIES), QUERIES)
    shuffled = np.random.default_rng(1).permutation(QUERIES).tolist()
    for order, size in ((shuffled, 5), (range(QUERIES), 1)):
        assert batches(tour, collection, order, size) == expected
    for query, hits in zip(collection.queries[:3], expected.values(), strict=False):
        assert [(hit.docid, hit.score) for hit in tour.search(query, k=250)][:40] == hits
