"""The default method: by hand, against a plain oracle, and what must not change it."""

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus, found, world

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.method import StopReason

configs = st.builds(
    TourConfig,
    depth=st.integers(1, 9),
    budget=st.integers(0, 20),
    step=st.sampled_from([0.0, 0.7, 2.0]),
    reranker_weight=st.sampled_from([0.0, 0.4, 3.0]),
    early_stopping=st.booleans(),
)


@given(config=configs, seed=st.integers(0, 10**6), size=st.integers(1, 60), with_signal=st.booleans())
@settings(deadline=None, max_examples=100)
def test_it_equals_the_plain_one(config, seed, size, with_signal):
    corpus, queries, scores = world(seed, size=size)
    signals = [found(scores, size)] if with_signal else []
    for row, task in enumerate(corpus.run(queries, config, hits=20, signals=signals)):
        signal = scores[row] if with_signal else None
        q, ranked, labels = oracle.default(corpus.vectors, queries[row], corpus.scores[row], signal, config)
        assert task.outcome.vector == pytest.approx(q, abs=1e-9)
        assert task.labels == pytest.approx(labels)
        assert task.outcome.ranking.ids[:20].tolist() == [id_ for id_, _ in ranked[:20]]
        assert task.outcome.ranking.scores[:20] == pytest.approx([score for _, score in ranked[:20]])


def test_one_step_by_hand():
    # Labels -1 and 1 standardised are themselves; w = softmax = (0.119, 0.881), minus 1/2: -+0.381.
    corpus = MemoryCorpus(np.eye(2), [[-1.0, 1.0]])
    (task,) = corpus.run(np.array([[0.8, 0.6]]), TourConfig(step=0.5, depth=2, budget=2, reranker_weight=1.0))
    moved = 0.5 * (np.exp(1) / (np.exp(1) + np.exp(-1)) - 0.5)
    assert task.outcome.vector == pytest.approx([0.8 - moved, 0.6 + moved])
    # Both are labelled: similarities to q_0 have the spread 0.1, and labels add 1 x 2 x 0.1 x exp(-1) and exp(1).
    assert task.outcome.ranking.ids.tolist() == [1, 0]
    assert task.outcome.ranking.scores == pytest.approx([0.6 + 0.2 * np.exp(1), 0.8 + 0.2 * np.exp(-1)])
    assert task.outcome.stop is StopReason.BUDGET


@given(seed=st.integers(0, 10**6), fewer=st.integers(1, 30), with_signal=st.booleans())
@settings(deadline=None, max_examples=30)
def test_the_first_hits_do_not_depend_on_how_many_are_asked_for(seed, fewer, with_signal):
    corpus, queries, scores = world(seed, size=400)
    signals = [found(scores, 150)] if with_signal else []
    many = corpus.run(queries, TourConfig(), hits=300, signals=signals)
    few = corpus.run(queries, TourConfig(), hits=fewer, signals=signals)
    for one, two in zip(few, many, strict=True):
        assert one.outcome.ranking.first(fewer).ids.tolist() == two.outcome.ranking.first(fewer).ids.tolist()
        assert one.outcome.ranking.first(fewer).scores.tolist() == two.outcome.ranking.first(fewer).scores.tolist()


def test_a_round_that_brings_at_most_one_candidate_into_the_first_ten_is_the_last():
    # The first ten have the best labels, so the second round changes nothing.
    vectors = np.stack([np.linspace(1, 0.5, 40), np.zeros(40)], axis=1)
    corpus = MemoryCorpus(vectors, [[*np.linspace(9, 5, 10), *np.full(30, -9.0)]])
    (task,) = corpus.run(np.array([[1.0, 0.0]]), TourConfig(depth=10, budget=40))
    assert task.outcome.stop is StopReason.LITTLE_CHANGE and len(task.labels) == 20
    (task,) = corpus.run(np.array([[1.0, 0.0]]), TourConfig(depth=10, budget=40, early_stopping=False))
    assert task.outcome.stop is StopReason.BUDGET and len(task.labels) == 40


def test_a_late_query_learns_from_the_labels_it_got():
    corpus, queries, _ = world(4)

    def slow(tasks):
        return [np.where(np.arange(len(task.wanted_labels)) < 4, task.wanted_labels, np.nan) for task in tasks]

    (task,) = corpus.run(queries[:1], TourConfig(), label=slow)
    assert task.outcome.stop is StopReason.DEADLINE
    assert len(task.labels) == 4 and task.updates == 1
    (task,) = corpus.run(queries[:1], TourConfig(), label=lambda tasks: [np.full(10, np.nan)])
    assert task.outcome.stop is StopReason.DEADLINE and task.updates == 0
    assert task.outcome.ranking.ids[:10].tolist() == np.argsort(-(corpus.vectors @ queries[0]))[:10].tolist()
