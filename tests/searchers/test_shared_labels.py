"""One purse for the queries of a run: each query's list is that of its own budget, however the run is cut up."""

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import Purse, TourConfig, TourError, TourSearcher
from tour_pyserini.core.loop import StopReason

QUERIES = 13
CONFIG = TourConfig(depth=5, mean_budget=11, least_gain=0.05)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("shared"), documents=300, queries=QUERIES)


def searcher(collection, config=CONFIG, reranker=None, **options):
    encode, score = collection.encoder.encode, reranker or HashReranker()
    return TourSearcher.from_vectors(collection.vectors, collection.texts, encode, score, config, **options)


def lists(found):
    return {q_id: [(hit.docid, hit.score) for hit in hits] for q_id, hits in found.items()}


@pytest.mark.parametrize("method", ["anchored", "anchored-soft", "regression"])
def test_each_query_has_the_list_of_its_own_budget(collection, method):
    config = CONFIG.replace(method=method)
    tour = searcher(collection, config)
    shared = tour.share_labels(collection.queries, collection.q_ids, 40)
    found = lists(tour.batch_run(collection.queries, collection.q_ids, 40, shared=shared)[1])
    budgets = set(shared.budgets.values())
    assert len(budgets) > 1 and max(budgets) <= config.most_labels == 22
    for query, q_id in zip(collection.queries, collection.q_ids, strict=True):
        alone = searcher(collection, config.replace(mean_budget=0, budget=shared.budgets[q_id]))
        assert [(hit.docid, hit.score) for hit in alone.search(query, k=40)] == found[q_id]


def test_batches_threads_and_repetition_change_nothing(collection):
    expected = lists(searcher(collection).batch_search(collection.queries, collection.q_ids, k=40))
    for size, threads in ((1, 1), (4, 2), (64, 1)):
        tour = searcher(collection)
        shared = tour.share_labels(collection.queries, collection.q_ids, 40, threads, batch_size=size)
        found = {}
        for start in range(0, QUERIES, size):
            part = slice(start, start + size)
            _, hits = tour.batch_run(collection.queries[part], collection.q_ids[part], 40, threads, shared=shared)
            found |= lists(hits)
        assert found == expected


def test_no_label_is_bought_twice_and_the_mean_is_kept(collection):
    reranker = HashReranker()
    tour = searcher(collection, reranker=reranker)
    tour.batch_search(collection.queries, collection.q_ids, k=10)
    assert len(reranker.asked) == len(set(reranker.asked)) == tour.costs.pairs == tour.costs.scored
    assert 10 * QUERIES < tour.costs.pairs <= 11 * QUERIES
    assert tour.costs.queries == QUERIES


def test_a_query_alone_has_the_mean(collection):
    reranker = HashReranker()
    searcher(collection, CONFIG.replace(least_gain=0), reranker).search(collection.queries[0])
    assert len(reranker.asked) == 10  # two rounds of 5; a third would be 15


def test_a_limit_of_each_query_stays(collection):
    tour = searcher(collection, CONFIG.replace(budget=10, least_gain=0))
    shared = tour.share_labels(collection.queries, collection.q_ids)
    tour.batch_run(collection.queries, collection.q_ids, shared=shared)
    assert tour.costs.pairs == 10 * QUERIES and set(shared.budgets.values()) == {10}


def test_the_trace_says_that_the_budget_ended_a_query(collection):
    rounds = []
    tour = searcher(collection, CONFIG.replace(least_gain=0), observe=lambda round_, ids: rounds.append(round_))
    tour.batch_search(collection.queries, collection.q_ids)
    stops = [reason for round_ in rounds for reason in round_.stops if reason is not None]
    assert set(stops) == {StopReason.BUDGET} and len(stops) == QUERIES


def test_vectors_have_no_labels_to_share(collection):
    vectors = np.stack([collection.encoder.encode(query) for query in collection.queries])
    dense = searcher(collection, TourConfig("dense")).batch_search(vectors, collection.q_ids)
    assert lists(searcher(collection).batch_search(vectors, collection.q_ids)) == lists(dense)


def test_without_a_mean_there_is_nothing_to_share(collection):
    tour = searcher(collection, TourConfig(depth=5))
    assert tour.share_labels(collection.queries, collection.q_ids) is None
    assert searcher(collection, TourConfig("rerank", mean_budget=20)).share_labels([], []) is None


def test_a_purse_is_kept_from_search_to_search(collection):
    purse, reranker = Purse(10), HashReranker()
    tour = searcher(collection, TourConfig(depth=5, budget=30, least_gain=0), reranker, purse=purse)
    for query in collection.queries:
        tour.search(query)
        assert purse.labels <= 10 * purse.queries
    assert purse.queries == QUERIES and purse.labels == len(reranker.asked) > 8 * QUERIES
    tour.batch_search(collection.queries, collection.q_ids)
    assert purse.queries == 2 * QUERIES


@pytest.mark.parametrize(
    ("config", "purse", "message"),
    [
        (TourConfig(), 20, "purse is a Purse, not int"),
        (TourConfig("rerank"), Purse(20), "the method rerank cannot tell what labels gain"),
        (TourConfig(mean_budget=20), Purse(20), "two ways to share labels"),
        (TourConfig(depth=10), Purse(9), "9 labels per query does not pay for the first 10"),
    ],
)
def test_a_purse_that_does_not_fit_is_refused(collection, config, purse, message):
    with pytest.raises(TourError, match=message):
        searcher(collection, config, purse=purse)


def test_a_mean_below_the_first_round_is_refused():
    with pytest.raises(TourError, match="mean_budget 9 does not pay for the first 10 labels of each query"):
        TourConfig(mean_budget=9)
    assert TourConfig(mean_budget=9, depth=9).most_labels == 18
    assert TourConfig(mean_budget=20, budget=25).most_labels == 25
