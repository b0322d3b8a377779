"""Peers of the field, loaded as a user's plugin is: the extension point is enough for them."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "core"))

from memory_corpus import MemoryCorpus, found  # noqa: E402

from tour_pyserini.core.config import TourConfig  # noqa: E402
from tour_pyserini.core.method import METHODS  # noqa: E402
from tour_pyserini.support.packages import load_plugins  # noqa: E402

PEERS = ("axn", "gar", "ladr", "ore", "qdrant-feedback", "refit", "rgs", "rocchio-rerank", "average-rerank")


@pytest.fixture(scope="module", autouse=True)
def peers():
    load_plugins([str(ROOT / "benchmarks" / "peers")])
    assert set(PEERS) < set(METHODS)


@pytest.mark.parametrize("with_signal", [True, False])
@pytest.mark.parametrize("name", PEERS)
def test_no_label_is_paid_twice_or_beyond_the_budget_and_a_query_depends_on_itself_alone(name, with_signal):
    random = np.random.default_rng(0)
    corpus = MemoryCorpus(random.normal(size=(200, 6)), 3 * random.normal(size=(4, 200)))
    queries, scores = random.normal(size=(4, 6)), random.normal(size=(4, 200))
    config = TourConfig(name)
    signals = [found(scores, 60)] if with_signal else ()
    tasks = corpus.run(queries, config, hits=50, signals=signals)
    assert len(corpus.labelled) == len(set(corpus.labelled))
    for task, alone in zip(tasks, corpus.tasks(queries, config, hits=50, signals=signals), strict=True):
        assert len(task.labels) == config.most_labels
        ids = task.outcome.ranking.first(50).ids.tolist()
        assert len(set(ids)) == 50 and (np.diff(task.outcome.ranking.scores) <= 1e-9).all()
        corpus.scheduler.run([alone], corpus.label)
        assert alone.outcome.ranking.first(50).ids.tolist() == ids


@pytest.mark.parametrize("name", ["gar", "ladr", "rgs"])
def test_the_graph_leads_to_what_the_retrieval_does_not_find(name):
    """The best label of the first candidates is that of a bridge to documents that are far from the query."""
    noise = 0.01 * np.random.default_rng(0).normal(size=(120, 3))
    vectors = np.array([[1.0, 0.0, 0.0]] * 90 + [[1.05, 1.0, 0.0]] + [[0.0, 2.0, 0.0]] * 29) + noise
    labels = np.array([-5.0] * 90 + [3.0] + [5.0] * 29)
    corpus = MemoryCorpus(vectors, [labels + noise[:, 0]])
    (task,) = corpus.run(np.array([[1.0, 0.0, 0.0]]), TourConfig(name, budget=30), hits=10)
    assert max(task.labels) > 90 and task.outcome.ranking.ids[0] >= 90
    (dense,) = corpus.run(np.array([[1.0, 0.0, 0.0]]), TourConfig("rerank", depth=30), hits=10)
    assert max(dense.labels) <= 90


def test_axn_by_hand():
    # Two labels that differ along the first axis alone: the solution is that axis, as long as q_0.
    corpus = MemoryCorpus([[1.0, 0.0], [0.0, 0.0]], [[4.0, 0.0]])
    (task,) = corpus.run(np.array([[0.6, 0.8]]), TourConfig("axn", budget=2))
    assert task.outcome.vector == pytest.approx([1.0, 0.0])
