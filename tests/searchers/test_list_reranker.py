"""Lists of others: by hand, the same as a search of the list, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_collection import HashReranker, unit

from tour_pyserini import TourConfig, TourError, TourReranker, TourSearcher
from tour_pyserini.core.method import METHODS
from tour_pyserini.data.texts import Passage
from tour_pyserini.searchers.list_reranker import DocumentList

TEXTS = [f"passage {number}" for number in range(40)]
VECTORS, QUERY = unit(np.random.default_rng(1), 40, 8), unit(np.random.default_rng(2), 8)
SCORES = np.random.default_rng(3).normal(size=40) * 7 + 20


def ranked(*given, config=None, reranker=None, **options):
    return [tuple(one)[1:] for one in TourReranker(reranker or HashReranker(), config).rank("query", *given, **options)]


def test_by_hand():
    # Scores 9, 7, 5 standardised times the weight of a signal: .612, 0, -.612. Labels 1 and 3: -1 and 1.
    labels = {"a": 1.0, "b": 3.0, "c": 9.0}
    rank = TourReranker(lambda pairs: [labels[text] for _, text in pairs], TourConfig(budget=2, depth=2)).rank
    found = rank("query", ["c", "b", "a"], scores=[5.0, 7.0, 9.0])
    unit = 0.5 * np.sqrt(1.5)
    assert [(one.document, one.position, one.label) for one in found] == [("b", 1, 3.0), ("a", 2, 1.0), ("c", 0, None)]
    assert [one.score for one in found] == pytest.approx([0.4 * np.e, unit + 0.4 / np.e, -unit])


@pytest.mark.parametrize("method", METHODS)
def test_a_list_with_vectors_is_searched_as_an_index_of_it(method):
    config = TourConfig(method)
    expected = TourSearcher.from_vectors(VECTORS, TEXTS, lambda _: QUERY, HashReranker(), config).search("query", k=40)
    found = ranked(TEXTS, VECTORS, config=config, query_vector=QUERY)
    assert [(str(place), score) for place, score, _ in found] == [(hit.docid, hit.score) for hit in expected]


@given(seed=st.integers(0, 1000), method=st.sampled_from(sorted(METHODS)), with_vectors=st.booleans())
@settings(deadline=None, max_examples=30)
def test_every_document_is_ranked_once_and_the_unit_of_scores_does_not_matter(seed, method, with_vectors):
    size = seed % 40 + 1
    scores = np.random.default_rng(seed).normal(size=size)
    more = {"vectors": VECTORS[:size], "query_vector": QUERY} if with_vectors else {}
    one, other = (ranked(TEXTS[:size], scores=x, config=TourConfig(method), **more) for x in (scores, 9 * scores + 5))
    assert sorted(place for place, *_ in one) == list(range(size))
    assert [place for place, *_ in one] == [place for place, *_ in other]
    assert [score for _, score, _ in one] == sorted((score for _, score, _ in one), reverse=True)


def test_without_scores_the_order_counts_and_without_labels_nothing_changes():
    assert ranked(TEXTS) == ranked(TEXTS, scores=np.arange(40, 0, -1))
    assert [place for place, *_ in ranked(TEXTS, config=TourConfig("dense"))] == [*range(40)]
    assert [place for place, *_ in ranked(TEXTS, scores=SCORES, config=TourConfig("dense"))] == [*np.argsort(-SCORES)]


def test_the_budget_is_spent_on_the_promising_part_and_a_whole_budget_labels_all():
    reranker = HashReranker()
    found = ranked(TEXTS, scores=SCORES, reranker=reranker, config=TourConfig(budget=10))
    assert {text for _, text in reranker.asked} == {TEXTS[i] for i in np.argsort(-SCORES)[:10]}
    assert sum(label is not None for *_, label in found) == 10
    labels = HashReranker().predict([("query", text) for text in TEXTS])
    whole = ranked(TEXTS, scores=SCORES, config=TourConfig("rerank", depth=40))
    assert [place for place, *_ in whole] == sorted(range(40), key=lambda i: -labels[i])


def test_many_lists_are_labelled_together_and_ranked_as_each_alone():
    lists = [DocumentList(f"query {i}", TEXTS[i : i + 30], None, SCORES[i : i + 30]) for i in range(5)]
    calls = []
    reranker = TourReranker(lambda pairs: calls.append(len(pairs)) or HashReranker().predict(pairs))
    together = reranker.rank_lists([*lists, DocumentList("query", [])])
    assert together == [TourReranker(HashReranker()).rank(*one[:2], scores=one.scores) for one in lists] + [[]]
    assert len(calls) <= 3


def test_documents_are_texts_mappings_or_objects():
    asked = HashReranker()
    documents = ["a", {"text": "b"}, {"title": "t", "text": "c"}, SimpleNamespace(content="d"), Passage("t", "e")]
    found = TourReranker(asked).rank("query", documents)
    assert {str(text) for _, text in asked.asked} == {"a", "b", "t c", "d", "t e"}
    assert all(one.document is documents[one.position] for one in found)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"documents": ["a", 3]}, ["position 1", "int"]),
        ({"documents": "ab"}, ["one text"]),
        ({"query": " "}, ["query", "text"]),
        ({"scores": [1.0]}, ["2 documents", "1 scores"]),
        ({"scores": [1.0, np.nan]}, ["position 1", "number"]),
        ({"vectors": np.eye(2)}, ["query_vector="]),
        ({"vectors": np.eye(2), "query_vector": [1.0]}, ["1 dimensions", "2"]),
    ],
)
def test_a_mistake_is_one_sentence(given_, words):
    with pytest.raises(TourError) as caught:
        TourReranker(HashReranker()).rank(**{"query": "q", "documents": ["a", "b"], **given_})
    assert all(word in str(caught.value) for word in words)
