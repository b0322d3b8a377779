"""Every list of a search: the first before any label, the last what `search` gives; and labels that come too late."""

import numpy as np
import pytest
from toy_collection import DIMENSION, HashReranker, unit

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.core.methods import METHODS

TEXTS = [f"passage {number}" for number in range(60)]
VECTORS = unit(np.random.default_rng(1), 60, DIMENSION)
QUERY = unit(np.random.default_rng(2), DIMENSION)


def searcher(method="anchored", **settings):
    return TourSearcher.from_vectors(
        VECTORS, TEXTS, lambda query: QUERY, HashReranker(), TourConfig(method, depth=5, **settings)
    )


class FirstLabels:
    """Labels the first `count` pairs, and has no time for the others; `asked` counts all."""

    def __init__(self, count):
        self.left, self.asked = count, 0

    def __call__(self, pairs):
        labels = HashReranker().predict(pairs)
        self.asked += len(pairs)
        labels[self.left :] = np.nan
        self.left = max(self.left - len(pairs), 0)
        return labels


@pytest.mark.parametrize("method", METHODS)
def test_the_first_list_is_dense_and_the_last_is_that_of_the_search(method):
    lists = list(searcher(method).rounds("query", k=20))
    dense = searcher("dense").search("query", k=20)
    assert [hit.docid for hit in lists[0].hits] == [hit.docid for hit in dense]
    assert not lists[0].labels and lists[0].t == 0
    assert lists[-1].hits == searcher(method).search("query", k=20)
    assert [found.stop is None for found in lists] == [True] * (len(lists) - 1) + [False]


@pytest.mark.parametrize("mean", [5, 7, 14, 15, 23])
def test_a_query_alone_has_the_mean_budget_for_itself(mean):
    settings = {"mean_budget": mean, "least_gain": 0}
    *_, last = searcher(**settings).rounds("query", k=20)
    tour = searcher(**settings)
    assert last.hits == tour.search("query", k=20) and len(last.labels) == tour.costs.pairs == mean // 5 * 5


def test_who_stops_asking_pays_for_no_more_labels():
    reranker = HashReranker()
    config = TourConfig(depth=5, least_gain=0)
    steps = TourSearcher.from_vectors(VECTORS, TEXTS, lambda query: QUERY, reranker, config).rounds("query")
    next(steps)
    assert not reranker.asked
    assert len(next(steps).labels) == len(reranker.asked) == 5
    steps.close()
    assert len(reranker.asked) == 5


def test_as_many_labels_as_were_asked_for_change_nothing():
    label = FirstLabels(1000)
    assert list(searcher().rounds("query", label=label))[-1].hits == searcher().search("query")
    assert label.asked


@pytest.mark.parametrize("method", [name for name, kind in METHODS.items() if kind.needs_labels])
@pytest.mark.parametrize("count", [0, 1, 3, 5, 7])
def test_labels_that_come_too_late_end_the_search_with_what_there_is(method, count):
    label = FirstLabels(count)
    *_, last = searcher(method, early_stopping=False).rounds("query", k=60, label=label)
    wanted = {hit.docid for hit in searcher("dense").search("query", k=60)}
    assert {hit.docid for hit in last.hits} == wanted
    scores = [hit.score for hit in last.hits]
    assert np.isfinite(scores).all() and scores == sorted(scores, reverse=True)
    assert len(last.labels) == min(count, label.asked) and all(np.isfinite(list(last.labels.values())))
    if label.asked > count:
        assert last.stop == "deadline"
    if last.t == 0 and not count:
        assert [hit.docid for hit in last.hits] == [hit.docid for hit in searcher("dense").search("query", k=60)]


def test_a_query_learns_from_the_labels_that_were_in_time():
    *_, whole = searcher(budget=3, least_gain=0).rounds("query", k=60)
    *_, cut = searcher(least_gain=0).rounds("query", k=60, label=FirstLabels(3))
    assert whole.labels == cut.labels and len(cut.labels) == 3
    assert np.allclose(whole.query, cut.query) and [hit.docid for hit in whole.hits] == [hit.docid for hit in cut.hits]


def test_re_ranking_keeps_the_order_of_the_retrieval_below_its_labels():
    *_, cut = searcher("rerank").rounds("query", k=60, label=FirstLabels(2))
    dense = [hit.docid for hit in searcher("dense").search("query", k=60)]
    assert sorted(hit.docid for hit in cut.hits[:2]) == sorted(dense[:2])
    assert [hit.docid for hit in cut.hits[2:]] == dense[2:]


def test_wrong_arguments_are_refused():
    with pytest.raises(TourError, match="at least 1"):
        next(searcher().rounds("query", k=0))
    with pytest.raises(TourError, match="no text to label"):
        next(searcher().rounds(QUERY))
