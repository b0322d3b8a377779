"""The scheduler: few calls, no query that depends on another, previews, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus, found, world

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import METHODS, Label, Neighbours, Outcome, Search, StopReason, method
from tour_pyserini.core.settings import MethodSettings
from tour_pyserini.errors import TourError


def summary(task):
    outcome = task.outcome
    return outcome.vector.tolist(), outcome.ranking.ids.tolist(), outcome.ranking.scores.tolist(), outcome.stop


@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(METHODS)), order=st.permutations(range(6)))
@settings(deadline=None, max_examples=60)
def test_a_query_does_not_depend_on_the_others(seed, name, order):
    corpus, queries, scores = world(seed, size=50, queries=6)
    signals = [found(scores, 30)]
    together = [summary(task) for task in corpus.run(queries, TourConfig(name), signals=signals)]
    tasks = corpus.tasks(queries, TourConfig(name), signals=signals)
    half = [tasks[row] for row in order[:3]]
    corpus.scheduler.run(half, corpus.label)
    for row in order[3:]:
        corpus.scheduler.run([tasks[row]], corpus.label)
    assert [summary(task) for task in tasks] == together


@pytest.mark.parametrize("name", sorted(METHODS))
def test_queries_of_a_turn_share_one_search(name):
    corpus, queries, _ = world(1, size=50, queries=6)
    tasks = corpus.run(queries, TourConfig(name))
    assert corpus.searched[0] == len(queries)
    assert len(corpus.searched) == max(len(task.rounds) for task in tasks)
    assert sum(corpus.searched) == sum(len(task.rounds) for task in tasks)
    assert len(corpus.labelled) == len(set(corpus.labelled)) == sum(len(task.labels) for task in tasks)


@pytest.mark.parametrize("name", ["tour", "hard", "soft", "rerank"])
def test_a_preview_is_what_a_deadline_would_leave(name):
    corpus, queries, _ = world(3, size=50, queries=6)
    (task,) = corpus.tasks(queries[:1], TourConfig(name, **({"early_stopping": False} if name != "rerank" else {})))
    previews = []
    corpus.scheduler.advance([task])
    while task.waits_for_labels:
        previews.append(corpus.scheduler.preview(task))
        task.answer(corpus.label([task])[0])
        corpus.scheduler.advance([task])
    assert previews[0].ranking.ids[:10].tolist() == np.argsort(-(corpus.vectors @ queries[0]))[:10].tolist()
    for count, preview in enumerate(previews):
        answers = iter(range(count))

        def label(tasks, answers=answers):
            late = next(answers, None) is None
            return [np.full(10, np.nan)[: len(one.wanted_labels)] if late else corpus.label([one])[0] for one in tasks]

        (stopped,) = corpus.run(queries[:1], TourConfig(name), label=label)
        if stopped.outcome.stop is StopReason.DEADLINE:
            assert stopped.outcome.ranking.ids.tolist() == preview.ranking.ids.tolist()
    assert len(corpus.labelled) >= len(task.labels)


def test_neighbours_are_found_without_signals():
    asked = []

    @method(MethodSettings)
    def wander(query, settings):
        hits = yield Search(query.vector, 3)
        near = yield Neighbours(hits.ids, 2)
        asked.extend(near)
        labels = yield Label(np.concatenate(near))
        assert len(labels) == 6
        return Outcome(query.vector, hits, StopReason.ROUNDS)

    corpus, queries, scores = world(6, size=50, queries=6)
    (task,) = corpus.run(queries[:1], TourConfig(wander), signals=[found(scores, 50)])
    for id_, near in zip(task.rounds[0].hits.ids, asked, strict=True):
        products = corpus.vectors @ corpus.vectors[id_]
        products[id_] = -np.inf
        assert near.tolist() == np.argsort(-products)[:2].tolist()


def test_a_label_pool_asks_for_a_repeated_candidate_once():
    @method(MethodSettings)
    def repeats(query, settings):
        hits, pool = (yield Search(query.vector, 3)), LabelPool(query)
        yield from pool.add(np.concatenate([hits.ids, hits.ids[:2]]))
        yield from pool.add(hits.ids)
        assert pool.ids.tolist() == hits.ids.tolist() and len(pool.vectors) == len(pool.labels) == 3
        return Outcome(query.vector, hits, StopReason.ROUNDS)

    corpus, queries, _ = world(6, size=50, queries=6)
    (task,) = corpus.run(queries[:1], TourConfig(repeats))
    assert len(corpus.labelled) == len(corpus.fetched) == len(task.labels) == 3


def test_a_method_that_returns_nothing_is_named():
    @method(MethodSettings)
    def forgetful(query, settings):
        yield Search(query.vector, query.hits)

    corpus = MemoryCorpus(np.eye(3), np.zeros((1, 3)))
    with pytest.raises(TourError, match="forgetful"):
        corpus.run(np.array([[1.0, 0.0, 0.0]]), TourConfig(forgetful))
