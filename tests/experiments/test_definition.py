"""Experiments from YAML files."""

import pytest
from small_experiment import definition, read

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import find_experiment, read_experiment


def test_conditions_and_setups_are_named_and_chosen(tmp_path):
    experiment = read(tmp_path, definition())
    assert list(experiment.conditions) == ["dense", "rerank-3", "rerank-6", "hard"]
    rerank = experiment.conditions["rerank-6"]
    assert rerank.flags == {"method": "rerank", "depth": 6}
    assert (rerank.title, rerank.sweep, rerank.value) == ("re-rank, depth 6", "rerank", 6.0)
    assert [setup.name for setup in experiment.setups()] == ["letters.tiny.flat", "letters.tiny.pq"]
    (pq,) = experiment.setups({"indexes": ["pq"]})
    assert list(experiment.conditions_of(pq)) == ["dense", "rerank-3", "rerank-6"]  # `hard` is restricted
    assert list(experiment.conditions_of(pq, ["rerank"])) == ["rerank-3", "rerank-6"]
    with pytest.raises(TourError, match="'soft' is not one of the conditions; choose from"):
        experiment.conditions_of(pq, ["soft"])
    values = definition()
    values["conditions"]["rerank"] |= {"only": {"indexes": ["flat"]}, "everywhere": [6]}
    values["rerankers"]["other"] = {"flags": {"reranker": "other"}}
    experiment = read(tmp_path, values)
    flat, other, pq, _ = experiment.setups()
    assert (flat.name, other.name) == ("letters.tiny.flat.tiny", "letters.tiny.flat.other")
    assert [name for name in experiment.conditions_of(flat) if "rerank" in name] == ["rerank-3", "rerank-6"]
    assert [name for name in experiment.conditions_of(pq) if "rerank" in name] == ["rerank-6"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("hist", 3, "a.yaml, hist:"),
        ("hits", "many", "a.yaml, hits:.*'many'"),
        ("conditions.rerank.sweep", {"depth": ["x"]}, "conditions, rerank, sweep, depth, 0.*'x'"),
        ("conditions.rerank.everywhere", [4], "conditions, rerank: everywhere has 4"),
        ("conditions.rerank-3", {"flags": {}}, "defines the condition rerank-3 a second time"),
        ("conditions.hard.only", {"indexes": ["ivf"]}, "uses 'ivf', .* its indexes"),
        ("collections.letters.index", "../../x", "collections, letters, index:"),
        ("collections.a/b", {}, "collections, a/b, "),
    ],
)
def test_wrong_values_are_refused_with_file_section_and_key(tmp_path, path, value, says):
    values = inside = definition()
    *parts, last = path.split(".")
    for part in parts:
        inside = inside[part]
    inside[last] = value
    with pytest.raises(TourError, match=says):
        read(tmp_path, values)


def test_a_file_that_is_not_an_experiment_is_refused(tmp_path):
    wrong = {"title: a\nhits: [1\n": "line 3 is not YAML", "a": "mapping", "title: a": "collections: Field required"}
    for text, says in wrong.items():
        (tmp_path / "a.yaml").write_text(text)
        with pytest.raises(TourError, match=rf"a\.yaml.* {says}"):
            read_experiment(tmp_path / "a.yaml")
    with pytest.raises(TourError, match="the experiment nothing does not exist"):
        find_experiment("nothing")


def test_collections_may_share_an_entry_with_their_names_in_it(tmp_path):
    (tmp_path / "a.yaml").write_text(
        """
        collections: {one: &all {corpus: "c-${COLLECTION}", topics: t, search: {index2: "i-${COLLECTION}"}}, two: *all}
        encoders: {tiny: }
        indexes: {flat: }
        rerankers: {tiny: }
        conditions: {dense: }
        expected: {one.tiny.flat: {dense: {method: dense, version: 2, RR: 0.5}}}
        """
    )
    experiment = read_experiment(tmp_path / "a.yaml")
    one, two = experiment.collections.values()
    assert (one.corpus, one.stem, two.corpus, two.stem) == ("c-one", "one", "c-two", "two")
    assert (experiment.name, experiment.title, experiment.conditions["dense"].title) == ("a", "a", "dense")
    assert experiment.expected["one.tiny.flat"]["dense"] == {"method": "dense", "version": 2, "RR": 0.5}


@pytest.mark.parametrize("name", ["paper-passages", "paper-passages-phrases"])
def test_published_scores_belong_to_setups_and_conditions_of_the_file(name):
    experiment = read_experiment(find_experiment(name))
    assert {setup.name for setup in experiment.setups()} == set(experiment.paper)
    for scores in experiment.paper.values():
        assert set(scores) == set(experiment.conditions)
        assert all(set(measured) == set(experiment.measures) for measured in scores.values())
