"""A search with its path: the list of `search`, and where its hits were before."""

import copy
import pickle
from xml.etree import ElementTree

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourSearcher, search_path
from tour_pyserini.evaluation.pictures import GAIN, LOSS
from tour_pyserini.searchers.search_path import ListSummary, PathHit, draw_ranks


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("toy"))


def make(toy, **settings):
    return TourSearcher.from_vectors(toy.vectors, toy.texts, toy.encoder.encode, HashReranker().predict, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        *({}, {"method": "hard"}, {"method": "rerank"}, {"method": "dense"}),
        *({"budget": 12, "depth": 4}, {"method": "rocchio"}),
    ],
    ids=str,
)
def test_the_list_is_that_of_search(toy, settings):
    searcher = make(toy, **settings)
    for query in toy.queries:
        path = search_path(searcher, query, k=12)
        assert [(hit.docid, hit.score, hit.text) for hit in path.hits] == [
            (hit.docid, hit.score, hit.text) for hit in searcher.search(query, k=12)
        ]
        assert [hit.rank for hit in path.hits] == [*range(1, 13)]


def test_the_path_by_hand():
    # Four documents on two axes; the re-ranker wants the one that is third by similarity.
    vectors = np.float32([[1, 0], [0.9, 0], [0.5, 0.5], [0, 1]])
    labels = {"a": 0.0, "b": 1.0, "c": 5.0, "d": 3.0}
    searcher = TourSearcher.from_vectors(
        vectors,
        {name: name for name in labels},
        lambda query: np.float32([1, 0]),
        lambda pairs: [labels[passage] for _, passage in pairs],
        TourConfig("rerank", depth=3, score_weight=1.0),
    )
    path = search_path(searcher, "q", k=3)
    assert [(hit.docid, hit.rank_before, hit.label) for hit in path.hits] == [
        ("c", 3, 5.0),
        ("b", 2, 1.0),
        ("a", 1, 0.0),
    ]
    assert path.hits[0].ranks[0] == 3 and path.hits[0].ranks[-1] == 1
    assert path.lists[0] == (0, 0, None, 1.0, None)
    assert path.lists[-1].labels == 3 and path.lists[-1].new == 0 and path.lists[-1].cosine == 1.0
    assert path.lists[-1].stop
    assert path.metadata(path.hits[1])["rank_before"] == 2


def test_the_figure_of_the_path_by_hand():
    hits = [
        PathHit("<up>", 1.0, "", 5.0, [None, None, 1]),  # from below: two points
        PathHit("down", 0.9, "", None, [1, 2, 2]),
        PathHit("same", 0.8, "", -1.0, [3, 1, 3]),
    ]
    lists = [ListSummary(updates, labels, None, 1.0, None) for labels, updates in ((0, 0), (10, 0), (20, 1))]
    figure = ElementTree.fromstring(draw_ranks(hits, lists))
    dots = [dot.get("style", "") for dot in figure.iter("{http://www.w3.org/2000/svg}use")]
    assert [sum(colour.lower() in dot for dot in dots) for colour in (GAIN, LOSS, "#888888")] == [2, 3, 3]


def test_a_hit_that_the_first_list_did_not_have_has_no_rank_before(toy):
    path = search_path(make(toy, depth=3, budget=12, early_stopping=False), "query 1", k=3)
    first = set(toy.docids[i] for i in np.argsort(-toy.vectors @ toy.encoder.table["query 1"])[:3])
    assert (
        {hit.docid for hit in path.hits if hit.rank_before is None} == {hit.docid for hit in path.hits} - first != set()
    )
    assert sum(one.new or 0 for one in path.lists) > 0
    assert path.lists[-1].updates > 0 and path.lists[-1].cosine < 1


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
    assert path._repr_html_().count("<table>") == 2 and path._repr_html_().count("<svg") == 1
    assert type(hits)(hits) == list(hits) == copy.copy(hits) == pickle.loads(pickle.dumps(hits))
    assert searcher.search("q", remove_dups=True)._repr_html_().count("<tr>") == 3
