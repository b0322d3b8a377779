"""Probabilities of relevance: fitted, stored with the settings, carried by hits, and cutting lists."""

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.core.settings import Calibration
from tour_pyserini.evaluation.relevance_probability import (
    compare_probabilities,
    fit_calibration,
    hit_features,
    probabilities,
    reliability,
)
from tour_pyserini.searchers.search_path import search_path

TRUE = Calibration(intercept=-1.0, label=0.5, standardised=0.8, similarity=2.0, rank=-0.4)


def hits(random, count):
    """Features of hits, and judgements that are drawn with the probabilities of `TRUE`."""
    features = np.stack([*random.normal(size=(3, count)), np.log(1 + np.arange(count) % 20)], axis=1)
    return features, random.random(count) < probabilities(TRUE, features)


def test_the_fit_finds_the_probabilities_that_made_the_judgements():
    features, relevant = hits(np.random.default_rng(0), 4000)
    fitted = fit_calibration(features, relevant)
    others, _ = hits(np.random.default_rng(1), 1000)
    assert np.abs(probabilities(fitted, others) - probabilities(TRUE, others)).mean() < 0.02
    parts = [hits(np.random.default_rng(seed), 20) for seed in range(100)]
    told = reliability(*map(list, zip(*parts, strict=True)))
    assert told.error < 0.05 and sum(count for *_, count in told.bins) == 1000
    assert fit_calibration(features, np.ones(len(features), dtype=bool)) is None


def test_errors_by_hand():
    told = compare_probabilities(np.array([0.1, 0.1, 0.9, 1.0]), np.array([False, True, True, True]))
    assert told.brier == pytest.approx((0.01 + 0.81 + 0.01 + 0) / 4)
    assert told.error == pytest.approx((2 * 0.4 + 2 * 0.05) / 4)  # 0.1 against 1 / 2, 0.95 against 1
    assert [count for *_, count in told.bins] == [2, 2]


def test_a_calibration_is_kept_with_the_settings_in_a_file(tmp_path):
    config = TourConfig(budget=20, calibration=TRUE)
    config.save(tmp_path / "a.toml")
    assert TourConfig.load(tmp_path / "a.toml") == config != TourConfig(budget=20)
    assert config.replace(depth=5).calibration == TRUE and config.replace(method="hard").calibration is None
    (tmp_path / "b.toml").write_text("[relevance]\nlabel = 1.0\n")
    with pytest.raises(TourError, match=r"b\.toml.*relevance"):
        TourConfig.load(tmp_path / "b.toml")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("toy"))


def search(toy, config, **more):
    made = TourSearcher.from_vectors(toy.vectors, toy.texts, toy.encoder.encode, HashReranker().predict, config)
    return made, made.search(toy.queries[0], k=20, **more)


def test_hits_carry_their_probability_and_lists_are_cut(toy):
    searcher, found = search(toy, TourConfig(budget=10, calibration=TRUE))
    (task,) = searcher.run([toy.queries[0]], ["q"], 20)
    features = hit_features(task, 20)
    labels = [task.labels.get(id_) for id_ in task.result.ranking.ids[:20].tolist()]
    lowest = min(task.labels.values())  # for a hit without a label
    assert None in labels and [lowest if label is None else label for label in labels] == features[:, 0].tolist()
    first = dict(zip(task.rounds[0].hits.ids.tolist(), task.rounds[0].hits.scores.tolist(), strict=True))
    assert features[0, 2] == first[task.result.ranking.ids[0]] and features[:2, 3].tolist() == [0, np.log(2)]
    assert [hit.relevance for hit in found] == pytest.approx(probabilities(TRUE, features))
    least = sorted(hit.relevance for hit in found)[10]
    _, cut = search(toy, TourConfig(budget=10, calibration=TRUE), min_relevance=least)
    assert [hit.docid for hit in cut] == [hit.docid for hit in found if hit.relevance >= least]
    _, nothing = search(toy, TourConfig(budget=10, calibration=TRUE), min_relevance=1.0)
    assert nothing == [] and f"{max(hit.relevance for hit in found):.2f}" in nothing.nothing
    path = search_path(searcher, toy.queries[0], 20)
    assert [path.metadata(hit)["relevance"] for hit in path.hits] == [hit.relevance for hit in found]
    assert searcher.search(toy.vectors[0], min_relevance=0.0)[0].relevance is None, "no text, so no labels"


def test_without_a_calibration_there_are_no_probabilities(toy):
    searcher, found = search(toy, TourConfig(budget=10))
    assert {hit.relevance for hit in found} == {None} and found.nothing is None
    path = search_path(searcher, toy.queries[0])
    assert "relevance" not in path.metadata(path.hits[0])
    with pytest.raises(TourError, match="tune"):
        search(toy, TourConfig(budget=10), min_relevance=0.5)
    with pytest.raises(TourError, match="between 0 and 1"):
        search(toy, TourConfig(budget=10, calibration=TRUE), min_relevance=1.5)
