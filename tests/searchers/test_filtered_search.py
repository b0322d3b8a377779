"""Searches with a filter: nothing that does not pass is found, labelled or handed to an observer."""

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import QuerySignal, TourConfig, TourError, TourSearcher
from tour_pyserini.searchers.searched_index import open_index
from tour_pyserini.searchers.trace import Trace
from tour_pyserini.stores.signals import write_bm25

CONFIGS = {
    "dense": TourConfig("dense"),
    "tour": TourConfig("tour", depth=4, budget=12),
    "hard": TourConfig("hard", depth=4, iterations=2),
    "rerank": TourConfig("rerank", depth=9),
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    toy = ToyCollection(tmp_path_factory.mktemp("filtered"))
    write_bm25([f"query {i % 7} word{i % 3}" for i in range(60)], toy.folder / "bm25")
    return toy


def words(query, k):
    """A signal of its own taste, which finds half of the documents."""
    docids = [f"d{i}" for i in range(0, 60, 2)]
    scores = [(int(docid[1:]) * 37 + len(query)) % 101 for docid in docids]
    best = np.argsort(scores)[::-1][:k]
    return [docids[i] for i in best], [float(scores[i]) for i in best]


def searcher(collection, config, *, signals=(), observe=None, **options):
    fields = {f"d{i}": {"part": i % 5, "year": 2000 + i} for i in range(60)}
    index = open_index(collection.folder, collection.encoder)
    return TourSearcher(
        index, HashReranker(), collection.texts, config, signals=signals, observe=observe, fields=fields, **options
    )


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(st.sampled_from(range(5)), max_size=3), after=st.integers(1990, 2061), k=st.integers(1, 20))
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("signals", ["none", "a function", "BM25 and vectors"])
def test_nothing_that_does_not_pass_is_found_labelled_or_seen(collection, config, signals, parts, after, k):
    allowed = {f"d{i}" for i in range(60) if i % 5 in parts and 2000 + i >= after}
    wanted, seen, lines = {"part": {"in": parts}, "year": {"gte": after}}, {}, io.StringIO()
    index = open_index(collection.folder, collection.encoder)
    signals = {"none": [], "a function": [QuerySignal(words)], "BM25 and vectors": [collection.folder, index]}[signals]
    trace = Trace(lines, collection.docids)

    def observe(qid, task):
        seen[qid] = task
        trace(qid, task)

    tour = searcher(collection, CONFIGS[config], signals=signals, observe=observe)
    found = tour.batch_search(collection.queries, collection.q_ids, k=k, filter=wanted)
    assert all(len(hits) == min(k, len(allowed)) for hits in found.values()) or signals
    assert {hit.docid for hits in found.values() for hit in hits} <= allowed
    asked = {text.removeprefix("passage ") for _, text in tour._reranker.asked} if tour._reranker else set()
    assert asked <= allowed
    assert set(re.findall(r'"(d\d+)"', lines.getvalue())) <= allowed
    for task in seen.values():
        ids = [id_ for one in task.rounds for id_ in (*one.hits.ids, *one.ids)]
        proposed = [id_ for signal in task.query.fusion.signals for id_ in signal.ids]
        assert {collection.docids[id_] for id_ in (*ids, *proposed)} <= allowed
    fixed = searcher(collection, CONFIGS[config], signals=signals, filter=wanted)
    alone = fixed.search(collection.queries[2], k=k, filter={"year": {"lte": 2070}})
    assert [hit.docid for hit in alone] == [hit.docid for hit in found[collection.q_ids[2]]]
    alone = tour.search(collection.queries[2], k=k, filter=sorted(allowed))
    assert [(hit.docid, hit.score) for hit in alone] == [(hit.docid, hit.score) for hit in found[collection.q_ids[2]]]


@pytest.mark.parametrize("config", ["dense", "tour", "hard"])
def test_with_vectors_alone_the_list_is_that_of_an_index_of_what_passes(collection, config):
    rows = [i for i in range(60) if i % 5 in (1, 2)]
    texts, encode = {f"d{i}": collection.texts[f"d{i}"] for i in rows}, collection.encoder.encode
    part = TourSearcher.from_vectors(collection.vectors[rows], texts, encode, HashReranker(), CONFIGS[config])
    whole = searcher(collection, CONFIGS[config])
    for query in collection.queries:
        ours, theirs = whole.search(query, k=30, filter={"part": {"in": [1, 2]}}), part.search(query, k=30)
        assert [(hit.docid, hit.score) for hit in ours] == [(hit.docid, hit.score) for hit in theirs]


def test_queries_with_different_filters_advance_together(collection):
    tour = searcher(collection, CONFIGS["tour"], signals=[QuerySignal(words)], remove_query=True)
    filters = [None, {"part": 1}, ["d3", "d4", "d5"], {"part": 1}, {"year": {"lt": 2000}}]
    pairs = list(zip(collection.queries, filters, strict=False))
    tasks = [task for query, wanted in pairs for task in tour.tasks([query], ["d6"], 10, filter=wanted)]
    tour.scheduler().run(tasks, tour._labeller(None))
    for (query, wanted), task in zip(pairs, tasks, strict=True):
        (alone,) = tour.run([query], ["d6"], 10, filter=wanted)
        assert alone.result.ranking.ids.tolist() == task.result.ranking.ids.tolist()
        assert np.array_equal(alone.result.vector, task.result.vector)
    assert not len(tasks[4].result.ranking.ids)


def test_what_a_filter_needs(collection):
    plain = TourSearcher(open_index(collection.folder, collection.encoder), HashReranker(), collection.texts)
    assert {hit.docid for hit in plain.search(collection.queries[0], filter=["d1", "d2"])} == {"d1", "d2"}
    for wanted, word in (({"part": 1}, "fields="), ("part == 1", "not JSON")):
        with pytest.raises(TourError, match=word):
            plain.search(collection.queries[0], filter=wanted)
