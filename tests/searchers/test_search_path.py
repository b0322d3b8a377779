"""Every list of a search, the first before any label and the last what `search` gives; and its path in a notebook."""

import copy
import pickle

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourSearcher, search_path
from tour_pyserini.core.method import METHODS


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("toy"))


def make(toy, score=None, **settings):
    score = score or HashReranker().predict
    return TourSearcher.from_vectors(toy.vectors, toy.texts, toy.encoder.encode, score, **settings)


@pytest.mark.parametrize("method", METHODS)
def test_the_first_list_is_dense_and_the_last_is_that_of_the_search(toy, method):
    searcher = make(toy, method=method)
    for query in toy.queries[:3]:
        expected, lists = searcher.search(query, k=12), list(searcher.rounds(query, k=12))
        if TourConfig(method).most_labels:
            dense = make(toy, method="dense").search(query, k=12)
            assert [hit.docid for hit in lists[0].hits] == [hit.docid for hit in dense] and lists[0].updates == 0
        assert not lists[0].labels and lists[-1].hits == expected
        assert [found.stop is None for found in lists] == [True] * (len(lists) - 1) + [False]
        path = search_path(searcher, query, k=12)
        found = [(hit.docid, hit.score, hit.text, hit.rank) for hit in path.hits]
        assert found == [(hit.docid, hit.score, hit.text, rank) for rank, hit in enumerate(expected, start=1)]


def test_who_stops_asking_pays_for_no_more_labels(toy):
    reranker = HashReranker()
    steps = make(toy, reranker.predict, depth=5, early_stopping=False).rounds(toy.queries[0])
    next(steps)
    assert not reranker.asked
    assert len(next(steps).labels) == len(reranker.asked) == 5
    steps.close()
    assert len(reranker.asked) == 5


def test_a_list_on_the_way_is_what_that_budget_gives(toy):
    searcher = make(toy, depth=5, budget=20, early_stopping=False)
    for found in list(searcher.rounds(toy.queries[0], k=60))[1:]:
        whole = searcher.search(toy.queries[0], k=60, budget=len(found.labels))
        assert [hit.docid for hit in found.hits] == [hit.docid for hit in whole]


def test_the_path_by_hand():
    # Four documents on two axes; the re-ranker wants the one that is third by similarity.
    vectors = np.float32([[1, 0], [0.9, 0], [0.5, 0.5], [0, 1]])
    labels = {"a": 0.0, "b": 1.0, "c": 5.0, "d": 3.0}
    texts, config = {name: name for name in labels}, TourConfig("rerank", depth=3, score_weight=1.0)
    score = lambda pairs: [labels[passage] for _, passage in pairs]  # noqa: E731
    searcher = TourSearcher.from_vectors(vectors, texts, lambda query: np.float32([1, 0]), score, config)
    path = search_path(searcher, "q", k=3)
    hits = [(hit.docid, hit.rank_before, hit.label) for hit in path.hits]
    assert hits == [("c", 3, 5.0), ("b", 2, 1.0), ("a", 1, 0.0)]
    assert path.hits[0].ranks[0] == 3 and path.hits[0].ranks[-1] == 1
    assert path.lists[0] == (0, 0, None, 1.0, None)
    assert path.lists[-1].labels == 3 and path.lists[-1].new == 0 and path.lists[-1].cosine == 1.0
    assert path.lists[-1].stop
    assert path.metadata(path.hits[1])["rank_before"] == 2


def test_notebooks_show_tables_whatever_a_passage_contains():
    searcher = TourSearcher.from_vectors(
        np.eye(2, dtype=np.float32),
        {"<1>": "<script>alert('x')</script>", "2": "a & b"},
        lambda query: np.float32([1, 0.5]),
        lambda pairs: [1.0, 2.0][: len(pairs)],
        method="rerank",
    )
    hits = searcher.search("<b>query</b>")
    path = search_path(searcher, "<b>query</b>")
    for html in (hits._repr_html_(), path._repr_html_()):
        assert "<script" not in html and "<b>" not in html
        assert "&lt;script&gt;" in html and "a &amp; b" in html and "&lt;1&gt;" in html
    assert "&lt;b&gt;query" in path._repr_html_()
    assert path._repr_html_().count("<table>") == 2
    assert list(hits) == copy.copy(hits) == pickle.loads(pickle.dumps(hits))
    assert searcher.search("q", remove_dups=True)._repr_html_().count("<tr>") == 3
