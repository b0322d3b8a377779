"""A search with its path: the list of `search`, and where its hits were before."""

import copy
import pickle

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourSearcher, search_path


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
    assert type(hits)(hits) == list(hits) == copy.copy(hits) == pickle.loads(pickle.dumps(hits))
    assert searcher.search("q", remove_dups=True)._repr_html_().count("<tr>") == 3
