"""Shared settings that a method does not use: they change nothing, and the command line refuses them."""

import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.core.methods import METHODS
from tour_pyserini.pipeline.config_flags import config_from_flags

OTHER_VALUES = {
    "depth": 3,
    "iterations": 5,
    "budget": 2,
    "score_weight": 0.15,
    "early_stopping": False,
    "similarity_scale": 3.0,
    "calibrate": "always",
    "final_list": "union",
    "aggregation": "softmax",
    "belief": 2.0,
    "mean_budget": 12,
}
UNUSED = [(method, name) for method in METHODS for name in sorted(METHODS[method].unused_settings())]


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """The hits of every query with a config."""
    toy = ToyCollection(tmp_path_factory.mktemp("toy"))

    def lists(config):
        searcher = TourSearcher.from_vectors(toy.vectors, toy.texts, toy.encoder.encode, HashReranker(), config)
        found = searcher.batch_search(toy.queries, toy.q_ids, k=30)
        return {q_id: [(hit.docid, hit.score) for hit in hits] for q_id, hits in found.items()}, searcher.costs.pairs

    return lists


@pytest.mark.parametrize(("method", "name"), UNUSED)
def test_an_unused_setting_changes_nothing(method, name, lists):
    assert lists(TourConfig(method, **{name: OTHER_VALUES[name]})) == lists(TourConfig(method))


@pytest.mark.parametrize(("method", "name"), UNUSED)
def test_a_flag_that_changes_nothing_is_refused(method, name):
    with pytest.raises(TourError, match=f"--{name.replace('_', '-')} changes nothing for the method {method}"):
        config_from_flags({"method": method, name: OTHER_VALUES[name]})


@pytest.mark.parametrize("name", ["depth", "iterations", "budget", "score_weight", "final_list", "aggregation"])
def test_a_setting_that_is_used_changes_something(name, lists):
    method = "hard" if name in ("iterations", "final_list", "aggregation") else "rerank"
    assert name not in METHODS[method].unused_settings()
    config = TourConfig(method, **({"learning_rate": 2.0, "early_stopping": False} if method == "hard" else {}))
    assert lists(config.replace(**{name: OTHER_VALUES[name]})) != lists(config)
