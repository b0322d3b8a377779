"""Every list of a search: the first before any label, the last what `search` gives."""

import numpy as np
import pytest
from toy_collection import DIMENSION, HashReranker, unit

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.core.method import METHODS

TEXTS = [f"passage {number}" for number in range(60)]
VECTORS = unit(np.random.default_rng(1), 60, DIMENSION)
QUERY = unit(np.random.default_rng(2), DIMENSION)


def searcher(method="tour", reranker=None, **settings):
    config = TourConfig(method, **settings)
    return TourSearcher.from_vectors(VECTORS, TEXTS, lambda query: QUERY, reranker or HashReranker(), config)


@pytest.mark.parametrize("method", METHODS)
def test_the_first_list_is_dense_and_the_last_is_that_of_the_search(method):
    lists = list(searcher(method).rounds("query", k=20))
    if TourConfig(method).most_labels:
        dense = searcher("dense").search("query", k=20)
        assert [hit.docid for hit in lists[0].hits] == [hit.docid for hit in dense]
        assert lists[0].updates == 0
    assert not lists[0].labels
    assert lists[-1].hits == searcher(method).search("query", k=20)
    assert [found.stop is None for found in lists] == [True] * (len(lists) - 1) + [False]


def test_who_stops_asking_pays_for_no_more_labels():
    reranker = HashReranker()
    steps = searcher(reranker=reranker, depth=5, early_stopping=False).rounds("query")
    next(steps)
    assert not reranker.asked
    assert len(next(steps).labels) == len(reranker.asked) == 5
    steps.close()
    assert len(reranker.asked) == 5


def test_a_list_on_the_way_is_what_that_budget_gives():
    lists = list(searcher(depth=5, budget=20, early_stopping=False).rounds("query", k=60))
    for found in lists[1:]:
        whole = searcher(depth=5, early_stopping=False).search("query", k=60, budget=len(found.labels))
        assert [hit.docid for hit in found.hits] == [hit.docid for hit in whole]
