"""The trace: one line per query and round, with labels, target and the reason to stop."""

import io
import json

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.core.loop import StopReason
from tour_pyserini.core.methods import METHODS
from tour_pyserini.searchers.trace import Trace


def traced(collection, config, *, vectors=False):
    """The lines of the trace by query id, and the searcher."""
    file, inner = io.StringIO(), collection.searcher()
    observe = Trace(file, inner.docids, labelled=config.method_class.needs_labels, vectors=vectors)
    searcher = TourSearcher(inner, HashReranker(), collection.texts, config, observe=observe)
    optimised, _ = searcher.batch_run(collection.queries, collection.q_ids, k=60)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert not observe._start and not observe._first_hits  # nothing is kept of queries that stopped
    return {q_id: [line for line in lines if line["qid"] == q_id] for q_id in collection.q_ids}, searcher, optimised


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("trace"))


@pytest.mark.parametrize("method", METHODS)
def test_each_round_of_each_query_is_one_line(collection, method):
    config = TourConfig(method, depth=5)
    paths, searcher, optimised = traced(collection, config, vectors=True)
    reasons = {str(reason) for reason in StopReason}
    for row, (q_id, query) in enumerate(zip(collection.q_ids, collection.queries, strict=True)):
        path = paths[q_id]
        assert [line["t"] for line in path] == list(range(len(path)))
        assert [line["stop"] for line in path[:-1]] == [None] * (len(path) - 1)
        assert path[-1]["stop"] in reasons and path[-1]["step_size"] is None
        assert path[0]["query"] == pytest.approx(collection.encoder.encode(query).tolist(), abs=1e-6)
        assert path[-1]["query"] == pytest.approx(optimised[row].tolist(), abs=1e-5)
        assert path[0]["cosine"] == pytest.approx(1) and path[0]["overlap"] is None
        for line in path:
            assert len(line["docids"]) == len(line["similarities"]) == len(line["target"])
            assert line["similarities"] == sorted(line["similarities"], reverse=True)
            assert line["norm"] == pytest.approx(np.linalg.norm(line["query"]), abs=1e-4)
    assert sum(len(path) - 1 for path in paths.values()) == searcher.costs.updates


@pytest.mark.parametrize("method", ["hard", "soft", "anchored"])
def test_labels_are_the_rerankers_scores_and_targets_are_distributions(collection, method):
    paths, _, _ = traced(collection, TourConfig(method, depth=5))
    for q_id, query in zip(collection.q_ids, collection.queries, strict=True):
        for line in paths[q_id]:
            labels = HashReranker().predict([(query, collection.texts[docid]) for docid in line["docids"]])
            assert line["labels"] == pytest.approx(labels.tolist())
            assert line["label_mean"] == pytest.approx(labels.mean(), abs=1e-5)
            assert sum(line["target"]) == pytest.approx(1, abs=1e-4)
            assert "query" not in line


def test_labels_that_were_not_bought_are_null(collection):
    paths, _, _ = traced(collection, TourConfig("rocchio-rerank", depth=5))
    for first, last in paths.values():
        assert first["labels"] == [None] * 5 and first["label_mean"] is None
        assert len(last["labels"]) == 5 and None not in last["labels"]
    paths, _, _ = traced(collection, TourConfig("rocchio", depth=5))
    assert all(line["labels"] is None for path in paths.values() for line in path)
